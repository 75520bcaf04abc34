import { PassThrough } from "node:stream";
import type { Talk } from "../../host/cli/command.ts";

/** Streams of a command without a user. */
export function silentTalk(): Talk {
  const input = new PassThrough();
  input.end();
  return {
    input,
    output: new PassThrough().resume(),
    notes: new PassThrough().resume(),
    notesTerminal: () => null,
    program: "svc",
    onInterrupt: () => {},
  };
}
