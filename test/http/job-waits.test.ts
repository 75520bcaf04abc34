// Requests that wait for the run of a job, as their HTTP thread holds them. Each counts as a live turn until it is
// answered or its client leaves. Actors and store are real, in simulated time.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { jobsAddress } from "../../bus/address.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import { SecretMask } from "../../governance/secret-mask.ts";
import type { HttpContext, LiveTurn } from "../../http/context.ts";
import type { RouteRequest } from "../../http/route.ts";
import { jobRoutes } from "../../http/routes/jobs.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { outcomeOf } from "../support/outcome.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { SimDisk } from "../support/sim-disk.ts";
import { Sim } from "../support/sim-env.ts";
import { cleanup } from "../support/temp.ts";

const principal = { tenant_id: tenantId, sub: "wanda", scopes: ["*"], scheme: "none", issuer: "" } as const;
const runJob = jobRoutes.find(({ path }) => path === "/jobs/{name}/run");

describe("requests that wait for the run of a job", () => {
  const atEnd = cleanup();
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    settings = processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** A request that waits for a run whose model answers after this time. */
  async function waiting(modelMs = 7_000) {
    const sim = new Sim(5);
    const disk = await SimDisk.open(atEnd);
    const env = sim.env();
    const store = disk.store(sim, env);
    const model = new ScriptedModel(
      env,
      () => ({ text: ["Reported."] }),
      () => modelMs,
    );
    const process = new ActorProcess({ env, store, settings, model, bootId: "one" });
    atEnd.after(() => process.close());
    const { bus } = process;
    const job = { schedule: "", manifest_id: "agent", payload: { prompt: "Report." }, enabled: true };
    await sim.until(bus.ask(jobsAddress(tenantId), "put", { name: "report", job, principal }));
    const turns = new SlotSet<LiveTurn>();
    // The HTTP thread has its own environment, so that its timers differ from those of the actors.
    const ownEnv = sim.env();
    let isClosing = false;
    const context = { env: ownEnv, settings, bus, store, turns, mask: new SecretMask([]), closing: () => isClosing };
    const gone: (() => void)[] = [];
    const exchange = { onAborted: (work: () => void) => void gone.push(work) };
    const request = { params: { name: "report" }, principal, exchange } as unknown as RouteRequest<never, never, never>;
    const answer = outcomeOf(Promise.resolve(runJob?.handle(request, context as unknown as HttpContext)));
    await sim.advance(1_000);
    assert.deepEqual([model.requests.length, turns.size], [1, 1]);
    return {
      ...{ sim, bus, answer },
      left: () => ({ turns: turns.size, planned: sim.planned(ownEnv) }),
      leave: () => {
        for (const work of gone) work();
      },
      end: () => {
        isClosing = true;
      },
    };
  }

  const nothing = { turns: 0, planned: 0 };
  const statusIn = (outcome: Awaited<Awaited<ReturnType<typeof waiting>>["answer"]>) =>
    "answer" in outcome && outcome.answer?.kind === "json" ? JSON.parse(String(outcome.answer.body)).status : outcome;

  test("JOB-006 count as live turns until the answer, and leave nothing afterwards", async () => {
    const { sim, answer, left } = await waiting();

    const outcome = await sim.until(answer);

    assert.equal(statusIn(outcome), "ok");
    assert.deepEqual(left(), nothing);
  });

  test("JOB-006 are answered as running after a minute, and the run continues", async () => {
    const { sim, answer, left } = await waiting(90_000);
    await sim.advance(58_000);
    const before = left().turns;

    const outcome = await sim.until(answer, 2_000);

    assert.deepEqual([before, statusIn(outcome)], [1, "running"]);
    assert.deepEqual(left(), nothing);
  });

  test("JOB-006 are answered with an error if the job was deleted", async () => {
    const { sim, bus, answer, left } = await waiting();
    await sim.until(bus.ask(jobsAddress(tenantId), "remove", { name: "report", principal }));

    const outcome = await sim.until(answer);

    assert.deepEqual(outcome, { refused: "not_found" });
    assert.deepEqual(left(), nothing);
  });

  test("JOB-006 end soon after the client disconnects, however long the run takes", async () => {
    const { sim, answer, left, leave } = await waiting();

    leave();
    await sim.until(answer, 1_000);

    assert.deepEqual(left(), nothing);
  });

  test("JOB-006 are answered as running when the server stops, before the run has ended", async () => {
    const { sim, answer, left, end } = await waiting();

    end();
    const outcome = await sim.until(answer, 1_000);

    assert.equal(statusIn(outcome), "running");
    assert.deepEqual(left(), nothing);
  });
});
