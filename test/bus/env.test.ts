import assert from "node:assert/strict";
import { test } from "node:test";
import { orderedId, systemEnv } from "../../bus/env.ts";
import { Sim } from "../support/sim-env.ts";

test("ids are 32 hexadecimal digits and unique", () => {
  const env = systemEnv();

  const ids = Array.from({ length: 5_000 }, () => env.id());

  for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(new Set(ids).size, ids.length);
});

test("stored ids are ordered by time, and the rest of each is unguessable", async () => {
  const sim = new Sim(1);
  const env = sim.env();
  const made: string[] = [];

  for (let i = 0; i < 50; i += 1) {
    made.push(orderedId(env), orderedId(env));
    await sim.advance(1);
  }

  for (const id of made) assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(new Set(made.map((id) => id.slice(12))).size, made.length);
  const times = made.map((id) => Number.parseInt(id.slice(0, 12), 16));
  assert.deepEqual(
    times,
    [...times].sort((a, b) => a - b),
  );
  assert.equal(new Set(times).size, 50);
});

test("deferred work runs after the promises of this turn, in order", async () => {
  const env = systemEnv();
  const order: string[] = [];

  env.defer(() => order.push("first"));
  const done = new Promise<void>((resolve) =>
    env.defer(() => {
      order.push("second");
      resolve();
    }),
  );
  void Promise.resolve()
    .then(() => {})
    .then(() => order.push("promise"));
  order.push("now");
  await done;

  assert.deepEqual(order, ["now", "promise", "first", "second"]);
});

test("soon-work runs after its caller returns, before deferred work and other events", async () => {
  const env = systemEnv();
  const order: string[] = [];

  const done = new Promise<void>((resolve) =>
    env.defer(() => {
      order.push("deferred");
      resolve();
    }),
  );
  env.soon(() => {
    order.push("soon");
    env.soon(() => order.push("soon after"));
  });
  order.push("now");
  await done;

  assert.deepEqual(order, ["now", "soon", "soon after", "deferred"]);
});

test("a timer fires once, and not at all when it was cancelled", async () => {
  const env = systemEnv();
  const fired: string[] = [];

  const cancelled = env.timer(1, () => fired.push("cancelled"));
  cancelled.cancel();
  // Timers do not keep a process alive, so something else has to.
  const alive = setInterval(() => {}, 1_000);
  await new Promise<void>((resolve) => {
    env.timer(5, () => {
      fired.push("fired");
      resolve();
    });
  });
  clearInterval(alive);

  assert.deepEqual(fired, ["fired"]);
});

test("the monotonic clock does not go back, and the epoch clock is in milliseconds", () => {
  const env = systemEnv();

  const readings = Array.from({ length: 1_000 }, () => env.monotonic());

  assert.ok(readings.every((reading, index) => index === 0 || reading >= (readings[index - 1] as number)));
  assert.ok(env.now() > 1_700_000_000_000 && env.now() < 10_000_000_000_000);
});

test("the monotonic clock is the host's, whenever a thread has started", () => {
  const env = systemEnv();

  // Far more than a pause between two lines, and far less than the uptime of a machine.
  assert.ok(Math.abs(env.monotonic() - Number(process.hrtime.bigint()) / 1e6) < 5_000);
});

test("a simulation moves its clock only on demand, and runs due events by time", async () => {
  const sim = new Sim(5);
  const env = sim.env();
  const done: string[] = [];
  const start = env.now();
  for (const delay of [30, 10, 20, 40]) env.timer(delay, () => done.push(`${delay} at ${env.now() - start}`));
  const cancelled = env.timer(15, () => done.push("cancelled"));
  env.timer(10, () => {
    cancelled.cancel();
    env.timer(5, () => done.push(`nested at ${env.now() - start}`));
  });

  await sim.run();
  assert.deepEqual(done, []);
  await sim.advance(35);

  assert.deepEqual(done.map(String), ["10 at 10", "nested at 15", "20 at 20", "30 at 30"]);
  assert.equal(env.now(), start + 35);
});

test("a simulation orders simultaneous events by its seed", async () => {
  const order = async (seed: number): Promise<string> => {
    const sim = new Sim(seed);
    const done: number[] = [];
    for (let i = 0; i < 20; i++) sim.env().timer(1, () => done.push(i));
    await sim.advance(1);
    assert.equal(done.length, 20);
    return done.join(" ");
  };

  assert.equal(await order(1), await order(1));
  assert.notEqual(await order(1), await order(2));
});

test("a simulation defers in order and drops the work of ended nodes", async () => {
  const sim = new Sim(9);
  const [env, other] = [sim.env(), sim.env()];
  const done: string[] = [];
  for (const name of ["a", "b", "c"])
    env.defer(() => {
      done.push(name);
      void Promise.resolve().then(() => done.push(`${name} promise`));
    });
  other.defer(() => done.push("ended"));
  other.timer(1, () => done.push("ended"));

  other.end();
  await sim.advance(10);

  assert.deepEqual(done, ["a", "a promise", "b", "b promise", "c", "c promise"]);
});

test("a simulation reports errors of events, and promises that never settle", async () => {
  const sim = new Sim(1);
  sim.env().defer(() => {
    throw new Error("in an event");
  });

  await assert.rejects(sim.run(), /in an event/);
  await assert.rejects(sim.until(new Promise(() => {}), 1_000), /not settled after 1000 simulated ms \(seed 1\)/);
});

test("a simulation runs soon-work first, but not on a stuck or ended node", async () => {
  const sim = new Sim(2);
  const [env, stuck, ended] = [sim.env(), sim.env(), sim.env()];
  const done: string[] = [];
  env.defer(() => {
    done.push("event");
    env.soon(() => void done.push("soon"));
  });
  env.timer(1, () => {
    done.push("later");
  });
  stuck.stall();
  ended.end();

  stuck.soon(() => void done.push("stuck"));
  ended.soon(() => void done.push("ended"));
  await sim.advance(1);
  assert.deepEqual(done, ["event", "soon", "later"]);
  stuck.goOn();
  await sim.run();
  sim.env().soon(() => {
    throw new Error("soon");
  });

  assert.deepEqual(done, ["event", "soon", "later", "stuck"]);
  await assert.rejects(sim.run(), /soon/);
});

test("a timer beyond the event loop's maximum fires on time, and not when cancelled", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const env = systemEnv();
  const dayMs = 86_400_000;
  const came: string[] = [];

  env.timer(60 * dayMs, () => came.push("kept"));
  const cancelled = env.timer(60 * dayMs, () => came.push("cancelled"));
  for (let day = 0; day < 59; day++) t.mock.timers.tick(dayMs);
  cancelled.cancel();
  assert.deepEqual(came, []);
  for (let day = 59; day < 61; day++) t.mock.timers.tick(dayMs);

  assert.deepEqual(came, ["kept"]);
});
