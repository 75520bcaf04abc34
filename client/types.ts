// The types of the client. The modules name them in their comments; nothing of this file is loaded at run time.
import type {
  ApprovalRequiredFrame,
  ErrorFrame,
  Routes,
  TodoUpdatedFrame,
  ToolRequestFrame,
  UiRequestFrame,
} from "./api.js";
import type { SvcError } from "./error.js";

/** A route by method and path, such as `POST /chat/steer`. */
export type RouteName = keyof Routes;

/** The fields of a request: of its path, query and body together. */
export type InputOf<Route extends RouteName> = Routes[Route]["input"];

/** Routes that stream events. */
export type StreamRoute = {
  [Route in RouteName]: [Routes[Route]["events"]] extends [never] ? never : Route;
}[RouteName];

/** The frames of a route. `id` is the cursor of a client that reconnects after the frame. A failure is thrown instead of its frame. */
export type FrameOf<Route extends RouteName> = Exclude<Routes[Route]["events"], ErrorFrame> & { readonly id?: string };

/** The error codes of all routes. */
export type ErrorCode = Routes[RouteName]["errors"];

export interface ClientOptions {
  /** The server's address. Default: the origin of the page. */
  url?: string;
  /** An API key. */
  key?: string;
  /** A token, sent as a bearer credential. */
  token?: string;
  /** Default: the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the request. */
  signal?: AbortSignal;
  /** Headers added to the request. */
  headers?: Record<string, string>;
  /** Query parameters of a route that also takes a body. */
  query?: Record<string, string>;
  /** A body that is not JSON, such as a file. The input then has the fields of the path only, and `headers` name its content type. */
  body?: string | Blob;
}

/** The arguments after the name of a route. The input is optional if all its fields are. */
type CallArguments<Route extends RouteName> =
  Record<never, never> extends InputOf<Route>
    ? [input?: InputOf<Route>, options?: CallOptions]
    : [input: InputOf<Route>, options?: CallOptions];

export interface Client {
  /** Calls a route and returns its reply. Throws an SvcError for a refusal. */
  call<Route extends RouteName>(route: Route, ...rest: CallArguments<Route>): Promise<Routes[Route]["reply"]>;
  /** The same for any content: returns the answer with its body unread. */
  open(route: RouteName, input?: object, options?: CallOptions): Promise<Response>;
  /** Runs a turn and yields its frames until it ends, also across lost connections. */
  stream(turn: TurnInput, options?: TurnOptions): AsyncGenerator<TurnFrame, void>;
  /** Yields the frames of an event stream, and reconnects until the signal aborts or the loop is left. */
  follow<Route extends StreamRoute>(
    route: Route,
    input?: InputOf<Route>,
    options?: FollowOptions,
  ): AsyncGenerator<FrameOf<Route>, void>;
}

/** Sends a request and returns the answer with its body unread. Throws an SvcError for a refusal. */
export type Send = (route: RouteName, input: object, options: CallOptions) => Promise<Response>;

export type TurnInput = InputOf<"POST /chat/stream">;

/** After a reconnect a turn has frames of its thread, too: `session_event` and `snapshot`. */
export type TurnFrame = FrameOf<"POST /chat/stream"> | FrameOf<"GET /chat/stream/{thread_id}">;

interface Listening {
  /** Ends the stream. The run of a thread continues: stop it with POST /chat/abort. */
  signal?: AbortSignal;
  /** Called when the stream is connected, and when it was lost and will be tried again. */
  onState?: (state: "open" | "lost") => void;
}

export interface TurnOptions extends Listening {
  /** Answers approvals, questions and calls of the client's tools. */
  waits?: Waits;
  /** Default on a thread: a random key. */
  idempotencyKey?: string;
  /** The token of the client's lease of the thread. */
  leaseToken?: string;
}

export interface FollowOptions extends Listening {
  /** The id of the last frame that was seen. */
  cursor?: string;
}

export type Decision = Omit<InputOf<"POST /approvals/{approval_id}/decide">, "approval_id">;

/** The answer to a question: a value, or a refusal with an optional note. */
export type Answer = { value: unknown } | { cancelled: true; note?: string };

/** Callbacks that answer the waits of a turn. `undefined` leaves the answer to another client. */
export interface Waits {
  /** Decides a call. */
  approval?(request: ApprovalRequiredFrame["data"]): Decision | undefined | Promise<Decision | undefined>;
  /** Answers a question. */
  question?(question: UiRequestFrame["data"]): Answer | undefined | Promise<Answer | undefined>;
  /** Runs a tool of the client and returns its result. An exception is the result of a failed call. */
  tool?(call: ToolRequestFrame["data"]): unknown;
}

export interface ThreadOptions {
  /** The thread's suffix. A thread begins with its first message. */
  thread_id: string;
  manifest: string;
  /** Default: the model of the manifest. */
  model?: string;
}

/** A message of a person or of the agent. */
export interface ThreadMessage {
  /** The id of the event in the log. */
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly thinking: string;
  /** The tool calls of a reply. `output` is null until the call has ended. */
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly args: unknown;
    readonly output: string | null;
  }[];
}

/** An open wait of the thread: see `decide`, `answer` and `result`. `call` is the id of the call that waits. */
export type ThreadAsk = { readonly id: string; readonly call: string | null } & (
  | { readonly kind: "approval"; readonly data: ApprovalRequiredFrame["data"] }
  | { readonly kind: "question"; readonly data: UiRequestFrame["data"] }
  | { readonly kind: "tool"; readonly data: ToolRequestFrame["data"] }
);

/** The content of a thread, for a view. */
export interface ThreadView {
  /** True until the first snapshot has arrived. */
  readonly isLoading: boolean;
  readonly isConnected: boolean;
  /** True while a turn runs, of any client. */
  readonly isRunning: boolean;
  /** The last failure. */
  readonly error: SvcError | null;
  readonly manifest: string | null;
  readonly name: string | null;
  /** The committed messages of the active branch. */
  readonly messages: readonly ThreadMessage[];
  /** The text of the reply in progress. */
  readonly text: string;
  readonly thinking: string;
  readonly asks: readonly ThreadAsk[];
  readonly todos: TodoUpdatedFrame["data"]["todos"];
}

/** The hooks of a framework that `threadHook` needs. */
export interface Hooks {
  useState<T>(initial: T): [T, (value: T) => void];
  useEffect(effect: () => () => void, inputs: readonly unknown[]): void;
  useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
}
