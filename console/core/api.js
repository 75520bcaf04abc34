import { signal } from "@preact/signals";
import { createClient } from "../../client/client.js";

// Requests to the server by the client library, with the key of this tab. A key is sent as a header only, never in an address.

/** The key of this tab: null while none is known, empty if the server needs none. */
export const key = signal(null);

/** The last error of a request that the server refused with 401. */
export const refused = signal(null);

let client = createClient();
key.subscribe((token) => {
  client = createClient(token ? { token } : {});
});

/**
 * Calls a route, such as `call("POST /chat/steer", { thread_id, text })`. Fields that the path names go into the path, all others into the
 * query of a GET or DELETE, or into the body.
 */
export function call(route, input = {}, options = {}) {
  return noticing(client.call(route, known(input), options));
}

/** Calls a route, and returns the answer with its body unread. */
export function open(route, input = {}, options = {}) {
  return noticing(client.open(route, known(input), options));
}

/** Runs a turn and yields its frames. */
export async function* runTurn(turn, options) {
  yield* noticingFrames(client.stream(turn, options));
}

/** Yields the frames of an event stream, also after a lost connection. */
export async function* follow(route, input, options) {
  yield* noticingFrames(client.follow(route, input, options));
}

async function noticing(answer) {
  try {
    return await answer;
  } catch (error) {
    notice(error);
    throw error;
  }
}

async function* noticingFrames(frames) {
  try {
    yield* frames;
  } catch (error) {
    notice(error);
    throw error;
  }
}

function notice(error) {
  if (error.status === 401 && key.value !== null) refused.value = error;
}

/** Returns the fields that have a value. */
function known(input) {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined && value !== ""));
}
