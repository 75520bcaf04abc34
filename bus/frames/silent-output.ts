import type { RunOutput } from "./output.ts";

/** Of a run that nobody who started it listens to any more: what it says is in its log, and heard by those who listen to that. */
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
