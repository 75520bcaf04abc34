// Actor threads that die under load: no turn hangs, no acknowledged event is lost, and every conversation continues.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startMockModel } from "../support/mock-model.ts";
import { type LocalServer, manifestEnv, modelEnv, startInProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { snapshotOf } from "./support.ts";

const clients = 24;
/** Numbers of turns with a seen end: at each of these a thread dies, and the last one ends the test. */
const deathsAt = [40, 100, 160];
const turnsMax = 240;

/** The facts that a client has received about its conversation. */
interface Told {
  readonly thread: string;
  /** Leaf ids that answers have named. */
  readonly leaves: string[];
  /** Events below this number are durable by the frames. */
  durable: number;
  lost: number;
}

class Load {
  readonly told: Told[] = [];
  readonly #server: LocalServer;
  #whole = 0;
  #reached: { count: number; resolve(): void } | null = null;

  constructor(server: LocalServer) {
    this.#server = server;
  }

  /** Resolves after this many whole turns; at once if they have ended already, because no later turn might come. */
  whole(count: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#whole >= count) resolve();
      else this.#reached = { count, resolve };
    });
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: clients }, (_, client) => this.#talk(client)));
  }

  async #talk(client: number): Promise<void> {
    const told: Told = { thread: `client-${client}`, leaves: [], durable: 0, lost: 0 };
    this.told.push(told);
    for (let number = 0; this.#whole < turnsMax; number++) {
      const body = turn("agent", `message ${number}`, { thread_id: told.thread });
      const whole = (client + number) % 2 === 0 ? await this.#post(told, body) : await this.#stream(told, body);
      if (!whole) continue;
      this.#whole++;
      if (this.#reached && this.#whole >= this.#reached.count) this.#reached.resolve();
    }
  }

  async #post(told: Told, body: object): Promise<boolean> {
    const { status, json } = await this.#server.post("/chat", body);
    if (status === 200) told.leaves.push(json.leaf_id);
    else this.#refused(told, status, json);
    return status === 200;
  }

  async #stream(told: Told, body: object): Promise<boolean> {
    const stream = await this.#server.stream("/chat/stream", body);
    const frames = await stream.rest();
    if (stream.status !== 200) {
      this.#refused(told, stream.status, JSON.parse(stream.text));
      return false;
    }
    for (const { id } of frames) if (id !== null) told.durable = Math.max(told.durable, Number(id));
    assert.equal(frames.at(-1)?.name, "[DONE]");
    const done = frames.some(({ name }) => name === "done");
    if (!done) {
      assert.equal(frames.at(-2)?.name, "error");
      told.lost++;
    }
    return done;
  }

  /** The thread has died, or its run has not been closed yet. */
  #refused(told: Told, status: number, { error }: { error: string }): void {
    told.lost++;
    assert.ok(
      (status === 503 && error === "actor_lost") || (status === 409 && error.startsWith("run_in_progress")),
      `${status} ${error}`,
    );
  }
}

describe("actor threads that die under load", () => {
  for (const http of ["1", "2"]) {
    test(`with ${http} http threads: every client gets an answer, and each answer holds`, async (t) => {
      const atEnd = cleanup(t);
      const mock = await startMockModel({ record: false });
      atEnd.after(() => mock.close());
      mock.answer("brief", says("one ", "two ", "three"));
      const server = await startInProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["brief"]),
          ...manifestEnv(atEnd, { agent: { model: { id: "brief" } } }),
          SVC_HTTP_THREADS: http,
          SVC_ACTOR_THREADS: "2",
        },
      });
      const firstActorNode = http === "1" ? 1 : 3;
      const load = new Load(server);
      const run = load.run();

      for (const [index, count] of deathsAt.entries()) {
        // A false answer ends the test; the other clients' load does not continue first.
        await Promise.race([load.whole(count), run]);
        await server.system.kill(firstActorNode + (index % 2));
      }
      await run;

      assert.ok(load.told.some(({ lost }) => lost > 0));
      for (const { thread, leaves, durable, lost } of load.told) {
        const { transcript } = await eventually(`${thread} is idle`, async () => {
          const seen = await snapshotOf(server, thread);
          return seen.phase === "idle" ? seen : undefined;
        });
        const ids = new Set(transcript.map(({ id }) => id));
        for (const leaf of leaves) assert.ok(ids.has(leaf), `${thread}: ${leaf} was acknowledged`);
        assert.ok(transcript.length >= durable, `${thread}: ${durable} events were acknowledged`);
        const marks = transcript.filter(({ metadata }) => metadata.type === "run_interrupted").length;
        assert.ok(marks <= lost, `${thread}: ${marks} marks for ${lost} lost turns`);
        const answer = await server.post("/chat", turn("agent", "and on", { thread_id: thread }));
        assert.deepEqual([answer.status, answer.json.final?.content], [200, "one two three"], thread);
      }
    });
  }
});
