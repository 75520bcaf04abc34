// A text that one screen leaves for the next, such as a message to edit and send again.

let left = null;

/** Leaves a draft for the chat that is opened next. */
export function handOver(draft) {
  left = draft;
}

/** Returns the draft once; null if there is none. */
export function takeOver() {
  const draft = left;
  left = null;
  return draft;
}
