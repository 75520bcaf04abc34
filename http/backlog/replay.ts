import { sessionEventFrame } from "../../storage/frames/session-event.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { readEvents } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { type PageMaker, pieceBytes } from "./shared-pages.ts";

/** Makes pages of frames from a thread's events. Each page ends at a frame boundary. */
export class ReplayMaker implements PageMaker {
  readonly first: number;
  readonly #store: TenantStore;
  readonly #thread: ThreadRow;
  readonly #upTo: number;

  constructor(store: TenantStore, thread: ThreadRow, first: number, upTo: number) {
    this.#store = store;
    this.#thread = thread;
    this.first = first;
    this.#upTo = upTo;
  }

  async make(from: number): Promise<{ text: string; next: number | null }> {
    const { thread_key, uid } = this.#thread;
    const page = await readEvents(this.#store, thread_key, from, this.#upTo, pieceBytes);
    const last = page.at(-1);
    const next = last && last.seq + 1 < this.#upTo ? last.seq + 1 : null;
    return { text: page.map((event) => sessionEventFrame(uid, event)).join(""), next };
  }
}
