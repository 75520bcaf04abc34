import { SvcError } from "../../../bus/errors.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { pinDigest } from "../../../manifests/compile/pin-digest.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertPinOp, type ManifestPin, pinOfThread } from "../../../storage/tables/manifest-pins.ts";
import type { OpenThread } from "../../log/messages.ts";

// With governance.pin_compile a thread stays on the version of its manifest with which it started (decision 130). A pin binds every later
// turn, also one under another manifest or under a version without pin_compile.

/** The thread of a turn, as far as its pin needs it. */
type PinnedThread = Pick<OpenThread, "thread_key" | "pinned">;

/**
 * Checks a turn against the pin of its thread. Returns the statement that pins the thread with the turn's first batch; null for none.
 * Refuses with manifest_pin_moved.
 */
export async function pinOf(
  store: TenantStore,
  thread: PinnedThread,
  suffix: string,
  agent: CompiledAgent,
  now: number,
): Promise<WriteOp | null> {
  if (!thread.pinned && !agent.isPinned) return null;
  if (await hasPin(store, thread, agent)) return null;
  const { name: manifest, version } = agent;
  const pin = { thread_key: thread.thread_key, suffix, manifest, version, digest: pinDigest(agent), pinned_at: now };
  return agent.isPinned ? insertPinOp(store, pin) : null;
}

/** True if the thread is pinned to this version. Refuses with manifest_pin_moved if it is pinned to another one. */
export async function hasPin(store: TenantStore, thread: PinnedThread, agent: CompiledAgent): Promise<boolean> {
  const pin = thread.pinned ? await pinOfThread(store, thread.thread_key) : undefined;
  if (pin === undefined) return false;
  const { name: manifest, version } = agent;
  const current = { manifest, version, digest: pinDigest(agent) };
  if (pin.digest === current.digest) return true;
  throw new SvcError("manifest_pin_moved", {
    detail: { error: "manifest_pin_moved", pinned: placeOf(pin), current },
    message:
      "The thread is pinned to another version of its manifest. Fork the thread, activate the pinned version again, or release the pin.",
  });
}

function placeOf({ manifest, version, digest }: ManifestPin) {
  return { manifest, version, digest };
}
