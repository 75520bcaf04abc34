import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { doneMark } from "../../bus/frames/frames.ts";
import { type News, type NewsKind, newsTopic, readNews, subjectOf } from "../../bus/protocol/news.ts";
import type { SlotMember } from "../../bus/slot-map.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import type { EventStream } from "../exchange/sse.ts";

// The news of tenants on this HTTP thread, for GET /events. The thread subscribes to the topic of a tenant while it has listeners, and for a
// while afterwards, so that a client which reconnects misses nothing. News are gathered, and each listener gets one frame a second.

/** Max news kept for listeners that reconnect. */
const keptMax = 1_000;
/** Max news in one frame. With more in a second, listeners read their lists again. */
const frameMax = 100;
/** Min time between two frames of a listener. */
const beatMs = 1_000;
/** Time after its last listener during which a feed continues. */
const lingerMs = 60_000;
/** Max time of a stream. The client then reconnects with its cursor, and proves again that its credential is valid. */
const streamMs = 10 * 60_000;
/** Streams end up to this much earlier, so that those that began together do not all reconnect together. */
const streamSpreadMs = 60_000;
/** Max feeds without listeners. */
const lingeringMax = 256;

/** The feeds of all tenants. */
export class NewsFeeds {
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #feeds = new Map<string, Feed>();
  #lingering = 0;

  constructor(env: Env, bus: Bus) {
    this.#env = env;
    this.#bus = bus;
    bus.onLost((node) => {
      if (!bus.actorNodes.includes(node)) return;
      for (const feed of this.#feeds.values()) feed.lostNews();
    });
    // Actors of other nodes publish after a change of the placement, and their first news may be missed.
    bus.onPlaced(() => {
      for (const feed of this.#feeds.values()) feed.lostNews();
    });
  }

  /** Number of tenants whose news arrive. */
  get size(): number {
    return this.#feeds.size;
  }

  /** Sends a client its missed news, or `reset`, and then news of the kinds until its stream ends, after 10 minutes at most. */
  join(tenantId: string, kinds: readonly NewsKind[], cursor: string | undefined, stream: EventStream): void {
    let feed = this.#feeds.get(tenantId);
    if (feed === undefined) {
      const created = new Feed(this.#env);
      this.#bus.subscribeEverywhere(newsTopic(tenantId), (text) => created.take(text));
      this.#feeds.set(tenantId, created);
      feed = created;
    } else if (feed.listeners.size === 0) this.#lingering--;
    const joined = feed;
    const listener: Listener = { slot: -1, stream, kinds: new Set(kinds), mask: kinds.join() };
    const lifetime = this.#env.timer(streamMs - this.#env.random() * streamSpreadMs, () => stream.end(doneMark));
    stream.onClose(() => {
      lifetime.cancel();
      this.#leave(tenantId, joined, listener);
    });
    joined.listeners.add(listener);
    stream.write(joined.since(cursor, listener));
  }

  #leave(tenantId: string, feed: Feed, listener: Listener): void {
    feed.listeners.delete(listener);
    if (feed.listeners.size > 0) return;
    this.#lingering++;
    if (this.#lingering > lingeringMax) {
      this.#end(tenantId, feed);
      return;
    }
    const leftAt = this.#env.monotonic();
    feed.leftAt = leftAt;
    this.#env.timer(lingerMs, () => {
      if (this.#feeds.get(tenantId) === feed && feed.listeners.size === 0 && feed.leftAt === leftAt)
        this.#end(tenantId, feed);
    });
  }

  #end(tenantId: string, feed: Feed): void {
    this.#lingering--;
    feed.end();
    this.#feeds.delete(tenantId);
    this.#bus.unsubscribeEverywhere(newsTopic(tenantId));
  }
}

interface Listener extends SlotMember {
  readonly stream: EventStream;
  readonly kinds: ReadonlySet<NewsKind>;
  /** Listeners with the same mask get the same text. */
  readonly mask: string;
}

/** The news of one tenant. */
class Feed {
  readonly listeners = new SlotSet<Listener>();
  /** Monotonic milliseconds of the time at which the last listener left. */
  leftAt = 0;
  readonly #env: Env;
  /** Identifies this memory: cursors of another process or thread are unknown here. */
  #name: string;
  /** The newest news, in order; the number of the first is `#count - #kept.length`. */
  readonly #kept: News[] = [];
  #count = 0;
  /** News since the last frame, by subject. */
  readonly #gathered = new Map<string, News>();
  #isOver = false;
  /** True if the gathered news are incomplete. */
  #hasLost = false;
  #isDue = false;
  #sentAt = Number.NEGATIVE_INFINITY;

  constructor(env: Env) {
    this.#env = env;
    this.#name = env.id().slice(0, 12);
  }

  take(text: string): void {
    for (const news of readNews(text)) {
      const subject = subjectOf(news);
      this.#gathered.delete(subject);
      this.#gathered.set(subject, news);
    }
    if (this.#gathered.size > frameMax) this.#hasLost = true;
    if (this.#hasLost) this.#gathered.clear();
    this.#schedule();
  }

  /** News may be missing from now on, so listeners must read their lists again. */
  lostNews(): void {
    this.#hasLost = true;
    this.#gathered.clear();
    this.#schedule();
  }

  /** Returns the frames after a cursor; `reset` if it is unknown or too old. */
  since(cursor: string | undefined, { kinds }: Listener): string {
    const [name, number] = cursor?.split("-") ?? [];
    const seen = Number(number);
    const first = this.#count - this.#kept.length;
    if (name !== this.#name || !Number.isInteger(seen) || seen < first || seen > this.#count) return this.#reset();
    let text = "";
    for (let at = seen; at < this.#count; at += frameMax) {
      const end = Math.min(at + frameMax, this.#count);
      text += this.#frame(this.#kept.slice(at - first, end - first), kinds, end);
    }
    return text;
  }

  end(): void {
    this.#isOver = true;
    this.#gathered.clear();
  }

  /** Sends the first news after a silence at the end of the turn of the event loop, and later ones together. */
  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    const waitMs = Math.max(0, this.#sentAt + beatMs - this.#env.monotonic());
    this.#env.timer(waitMs, () => this.#send());
  }

  #send(): void {
    this.#isDue = false;
    if (this.#isOver) return;
    this.#sentAt = this.#env.monotonic();
    const isReset = this.#hasLost;
    const news = [...this.#gathered.values()];
    this.#gathered.clear();
    this.#hasLost = false;
    if (isReset) {
      this.#name = this.#env.id().slice(0, 12);
      this.#kept.length = 0;
      this.#count = 0;
    } else {
      this.#kept.push(...news);
      this.#kept.splice(0, Math.max(0, this.#kept.length - keptMax));
      this.#count += news.length;
    }
    const texts = new Map<string, string>();
    for (const { stream, kinds, mask } of this.listeners) {
      let text = texts.get(mask);
      if (text === undefined) {
        text = isReset ? this.#reset() : this.#frame(news, kinds, this.#count);
        texts.set(mask, text);
      }
      stream.write(text);
    }
  }

  #reset(): string {
    return `id: ${this.#name}-${this.#count}\ndata: {"event":"reset","type":"reset","data":{},"text":""}\n\n`;
  }

  /** Returns a frame with the news of these kinds; empty if there are none. */
  #frame(news: readonly News[], kinds: ReadonlySet<NewsKind>, count: number): string {
    const shown = news.filter(({ kind }) => kinds.has(kind));
    if (shown.length === 0) return "";
    const data = JSON.stringify({ news: shown });
    return `id: ${this.#name}-${count}\ndata: {"event":"news","type":"news","data":${data},"text":""}\n\n`;
  }
}
