import assert from "node:assert/strict";
import type { Answer } from "../support/http-client.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import type { TestServer } from "../support/server.ts";
import type { Cleanup } from "../support/temp.ts";

/** Number of simultaneous connection attempts, fewer than any listen queue holds. */
const openingMax = 64;
/** More turns than fill a connection's system buffers and the limits of svc. */
const turnsMax = 200;

/** Clients that request something long, read its start, and then stall. */
export class StalledReaders {
  readonly #connections: RawConnection[] = [];

  /** Listeners to threads, by number. */
  static open(
    server: TestServer,
    count: number,
    thread: (at: number) => string,
    atEnd: Cleanup,
    begun = "\n\n",
    key?: string,
  ): Promise<StalledReaders> {
    return StalledReaders.#open(server, count, (at) => `/chat/stream/${thread(at)}`, begun, atEnd, key);
  }

  /** Readers of any path, once their answer has reached `begun`. */
  static openPath(
    server: TestServer,
    count: number,
    path: string,
    begun: string,
    atEnd: Cleanup,
  ): Promise<StalledReaders> {
    return StalledReaders.#open(server, count, () => path, begun, atEnd);
  }

  static async #open(
    server: TestServer,
    count: number,
    path: (at: number) => string,
    begun: string,
    atEnd: Cleanup,
    key?: string,
  ): Promise<StalledReaders> {
    const lines = key === undefined ? [] : [`authorization: Bearer ${key}`];
    const readers = new StalledReaders();
    atEnd.after(() => readers.close());
    let next = 0;
    const openSome = async (): Promise<void> => {
      for (let at = next++; at < count; at = next++) {
        const connection = new RawConnection(server.url);
        readers.#connections.push(connection);
        await connection.send(rawRequest("GET", path(at), lines));
        await connection.until(begun);
        assert.match(connection.unread, /^HTTP\/1\.1 200 /);
        connection.stall();
        connection.discard();
      }
    };
    await Promise.all(Array.from({ length: openingMax }, openSome));
    return readers;
  }

  close(): void {
    for (const connection of this.#connections) connection.reset();
  }
}

/** Runs turns until a condition holds. Returns their number; fails after too many. */
export async function talkUntil(say: () => Promise<Answer>, holds: () => Promise<boolean>): Promise<number> {
  for (let turns = 1; turns <= turnsMax; turns++) {
    const { status, text } = await say();
    assert.equal(status, 200, text);
    if (await holds()) return turns;
  }
  throw new Error(`not after ${turnsMax} turns`);
}
