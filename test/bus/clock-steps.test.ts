// The machine's clock may be set, forward or back, and clocks of hosts differ. An ask on the bus waits for its own
// deadline.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EchoDeps, echoActor } from "../support/echo-actor.ts";
import { outcomeOf } from "../support/outcome.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

const quiet: EchoDeps = { onHandled() {} };
const hourMs = 3_600_000;
const to = { kind: "echo", key: "a" } as const;
const message = (number: number, delayMs: number) => ({ sender: "s", number, delayMs });

/** A node that asks and one that answers, with clocks that the test sets. */
function twoNodes() {
  const sim = new Sim(1);
  const net = new SimNet(sim, { actorNodes: [0], otherNodes: [1], definitions: [echoActor(1_000)], deps: quiet });
  const [actors, asker] = [net.node(0), net.node(1)];
  return { sim, asker, actors };
}

for (const byMs of [hourMs, -hourMs]) {
  const way = byMs > 0 ? "forward" : "back";

  test(`a clock that is set ${way} ends no active ask and none in a mailbox`, async () => {
    const { sim, asker, actors } = twoNodes();
    const first = outcomeOf(asker.bus.ask(to, "echo", message(1, 300)));
    const second = outcomeOf(asker.bus.ask(to, "echo", message(2, 300)));
    await sim.advance(50);
    asker.env.setClock(byMs);
    actors.env.setClock(byMs);
    await sim.advance(1_000);

    assert.ok("answer" in (await first), JSON.stringify(await first));
    assert.ok("answer" in (await second), JSON.stringify(await second));
  });

  test(`an actor's clock that is ${way} of the asker's makes no ask overdue or longer`, async () => {
    const { sim, asker, actors } = twoNodes();
    actors.env.setClock(byMs);
    const answered = outcomeOf(asker.bus.ask(to, "echo", message(1, 100)));
    await sim.advance(1_000);
    assert.ok("answer" in (await answered), JSON.stringify(await answered));

    const late = outcomeOf(asker.bus.ask(to, "echo", message(2, 5_000), { deadlineMs: 500 }));
    await sim.advance(100);
    asker.env.setClock(byMs);
    let ended = false;
    void late.then(() => {
      ended = true;
    });
    await sim.advance(600);
    assert.ok(ended);
    assert.deepEqual(await late, { refused: "deadline_exceeded" });
  });
}
