import type { RunOutput } from "./output.ts";

/**
 * Output of a run that its starter no longer listens to. Its text is in the log and goes to the subscribers of the
 * thread.
 */
export const silentOutput: RunOutput = {
  writable: true,
  onWritable: (work) => work(),
  started() {},
  text() {},
  thinking() {},
  frame() {},
  finished() {},
  failed() {},
};
