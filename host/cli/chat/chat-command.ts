import { existsSync } from "node:fs";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../../plugins/command.ts";
import { type Command, type CommandIo, failed, textOption } from "../command.ts";
import { serverUrl, urlOption } from "../server-call.ts";
import { ChatSession, type Spoken } from "./chat-session.ts";
import { Lines, wholeInput } from "./lines.ts";

/** `svc chat`: an interactive thread with an agent of a running server. */
export const chatCommand: Command = {
  summary: "Chat with an agent of a running server; the key in SVC_KEY needs the scope chat:write.",
  options: {
    ...urlOption,
    thread: { type: "string", value: "ID", help: "Continue this thread (a new one)." },
    model: { type: "string", value: "MODEL", help: "Use this model, one of those that the manifest allows." },
    lines: { type: "boolean", help: "Read each line of a pipe as a message, or as the answer to an open question." },
    thinking: { type: "boolean", help: "Show the model's thinking." },
  },
  positionals: ["[MANIFEST]"],
  async run(args, io) {
    const session = openSession(args, io);
    let lines: Lines | null = null;
    const interrupted = Promise.withResolvers<Spoken>();
    const interrupt = (): void => {
      if (!session.interrupt()) interrupted.resolve({ kind: "interrupted" });
    };
    io.talk.onInterrupt(interrupt);
    try {
      if (isAsked(args, io)) lines = new Lines(io.talk, interrupt);
      const said = await Promise.race([talk(session, lines, io), interrupted.promise]);
      return outcomeOf(said, session, lines, io.talk.program);
    } finally {
      lines?.close();
    }
  },
};

/** True if questions can be answered: by a person at a terminal, or by a program that sends lines. */
function isAsked(args: CommandArgs, { talk }: CommandIo): boolean {
  return talk.input.isTTY === true || args.options.lines === true;
}

function openSession(args: CommandArgs, io: CommandIo): ChatSession {
  const given = textOption(args, "thread", "");
  // Accept the full id that lists show; the server derives the tenant from the key.
  const thread = given.slice(given.indexOf(":") + 1);
  if (args.options.thread !== undefined && !/^[^\p{C}/]{1,200}$/u.test(thread))
    throw new UsageError("--thread is a thread id of 1 to 200 characters.");
  return new ChatSession({
    io,
    url: serverUrl(args, io.environment),
    manifest: args.positionals[0] ?? null,
    usualManifest: loadSettings(io.environment).defaultManifest,
    thread: thread === "" ? `chat-${io.env.id().slice(0, 12)}` : thread,
    isOld: thread !== "",
    model: textOption(args, "model", "") || null,
    withThoughts: args.options.thinking === true,
    asJson: args.json,
  });
}

async function talk(session: ChatSession, lines: Lines | null, io: CommandIo): Promise<Spoken> {
  if (lines === null) {
    const text = await wholeInput(io.talk);
    const before = await session.open(null);
    if (before !== null && (before.kind !== "said" || text === "")) return before;
    if (text === "") throw new UsageError("The input is empty: there is no message to send.");
    return session.say(text, null);
  }
  let last = await session.open(lines);
  if (last !== null && last.kind !== "said") return last;
  if (lines.isTyped) session.greet();
  for (;;) {
    const text = await nextMessage(lines);
    if (text === null) return last ?? { kind: "said" };
    if (text === "") continue;
    last = await session.say(text, lines);
    if (last.kind === "refused" && lines.isTyped && mayGoOn(last)) session.tell(last.outcome.text);
    if (last.kind !== "said" && !(lines.isTyped && mayGoOn(last))) return last;
    if (last.kind === "interrupted") last = { kind: "said" };
  }
}

/** Reads a message: one line, plus the following lines as long as each ends in a backslash. */
async function nextMessage(lines: Lines): Promise<string | null> {
  let text = "";
  for (let prompt = "> "; ; prompt = "… ") {
    const line = await lines.next(prompt);
    if (line === null) return text === "" ? null : text;
    if (!line.endsWith("\\")) return (text + line).trim();
    text += `${line.slice(0, -1)}\n`;
  }
}

/** True if a person at a terminal may continue after this outcome. */
function mayGoOn(said: Spoken): boolean {
  return said.kind === "failed" || said.kind === "interrupted" || (said.kind === "refused" && said.mayPass);
}

function outcomeOf(said: Spoken, session: ChatSession, lines: Lines | null, program: string): Outcome {
  const { thread } = session;
  const resume = `Continue with: ${program} chat ${session.words()}`;
  session.endLine();
  if (said.kind === "said")
    return { code: 0, json: { ok: true, thread_id: thread }, text: lines?.isTyped && session.hasSpoken ? resume : "" };
  const { code, json, text } = failure(said, session.manifest);
  return { code, json: { ...json, thread_id: thread }, text: session.hasSpoken ? `${text}\n${resume}` : text };
}

/** Adds a hint if the manifest is unknown and its file from `svc init` exists: the server lacks SVC_MANIFEST_DIR. */
function withFile(outcome: Outcome, manifest: string): Outcome {
  const path = `agents/${manifest}.yaml`;
  if (outcome.json.error !== "unknown_manifest" || !existsSync(path)) return outcome;
  return { ...outcome, text: `${outcome.text}\n${path} exists: start the server with SVC_MANIFEST_DIR=agents.` };
}

function failure(said: Exclude<Spoken, { kind: "said" }>, manifest: string): Outcome {
  if (said.kind === "refused") return withFile(said.outcome, manifest);
  if (said.kind === "interrupted")
    return { code: 130, json: { ok: false, error: "interrupted" }, text: "Interrupted." };
  if (said.kind === "failed") return failed(1, "turn_failed", "The turn did not end.");
  const why = said.message === null ? "The connection to the server was lost during the turn" : said.message;
  const more = said.message === null ? "; its events until then are stored, and it may still be running." : "";
  return failed(1, "server_gone", `${why}${more}`);
}
