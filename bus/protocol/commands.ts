/** States of a background command. All but `running` are final. */
export type CommandStatus = "running" | "exited" | "killed" | "timed_out" | "output_exceeded" | "failed" | "lost";

/** The workspace that a command belongs to; tools of other workspaces cannot see it. */
export interface CommandScope {
  readonly tenant_id: string;
  /** `tenant`, `deployment`, or `thread:` and a suffix. */
  readonly scope: string;
}

/** A background command to start. */
export interface StartedCommand extends CommandScope {
  readonly command_id: string;
  /** Full id of the thread whose deletion ends the command; empty without one. */
  readonly thread_id: string;
  readonly manifest: string;
  readonly tool: string;
  readonly argv: readonly string[];
  readonly stdin: string;
  readonly folder: {
    readonly root: string;
    readonly below: string;
    readonly cwd: string;
    readonly hidden: readonly string[];
  };
  readonly timeout_ms: number;
}

/** A command, named from its workspace. */
export interface NamedCommand extends CommandScope {
  readonly command_id: string;
}

/** The state of a background command, and its output that no one has read yet. */
export interface CommandState {
  readonly status: CommandStatus;
  /** Null while it runs, and if a signal ended it. */
  readonly exit_code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly duration_ms: number;
}

/** Messages to the actor that holds the background commands of one host. Its state is lost with the process. */
export interface CommandsMessages {
  /** Starts a command. `refused` says in words for the model why it was not started. */
  start: { body: StartedCommand; reply: { readonly refused: string | null } };
  /** Returns the state of a command, after waiting for output or its end; null for an unknown one. The output is read once. */
  read: { body: NamedCommand & { readonly wait_ms: number }; reply: { readonly state: CommandState | null } };
  /** Ends a command and returns its state; null for an unknown one. */
  kill: { body: NamedCommand; reply: { readonly state: CommandState | null } };
  /** Ends the commands of a thread that is being deleted, and forgets them. */
  forget: { body: { readonly thread_id: string }; reply: Record<string, never> };
}
