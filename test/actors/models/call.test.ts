import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type CallPlan, callModel } from "../../../actors/models/call.ts";
import { httpProvider } from "../../../actors/models/http-provider.ts";
import { ModelFailure, type ModelProvider } from "../../../actors/models/provider.ts";
import { UsageMeter } from "../../../actors/run/billing/usage-meter.ts";
import { Cancellation } from "../../../actors/runtime/cancellation.ts";
import { errorTable, SvcError } from "../../../bus/errors.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { listen, requestTo, routeTo, stillEnv } from "./support.ts";

// Calls go over real sockets to a server with scripted failures. Pauses between tries take no time.

let mock: MockModel;
before(async () => {
  mock = await startMockModel();
});
after(() => mock.close());

let names = 0;

/** A unique model name. */
function fresh(): string {
  return `model-${++names}`;
}

/** The parts that a call needs, and a record of its events. */
function prepare(
  routes: readonly ModelRoute[],
  options: { holdTimers?: boolean; timeoutMs?: number; again?: (stop: () => void) => Promise<void> } = {},
) {
  const world = stillEnv(options);
  const cancellation = new Cancellation();
  const listener = listen();
  const told: string[] = [];
  let calls = 0;
  let isCut = false;
  const provider = httpProvider(
    {
      name: "openai",
      baseUrl: mock.url,
      apiKey: null,
      timeoutMs: options.timeoutMs ?? 60_000,
      maxTokensField: "max_tokens",
      asksForUsage: true,
      mask: new SecretMask([]),
    },
    world.env,
    new Egress("operator"),
  );
  const plan: CallPlan = {
    routes,
    provider: (route): ModelProvider => {
      if (route.provider === "nobody") throw new SvcError("model_not_configured", { subject: route.provider });
      return provider;
    },
    request: (route) => requestTo("x", { route }),
    events: listener.events,
    cancellation,
    observer: {
      finished: (route, outcome) => told.push(`${outcome} ${route.id}`),
      retried: (route, status) => told.push(`retry ${route.id} ${status}`),
      timedOut: (route) => told.push(`timeout ${route.id}`),
      switched: (from, to) => told.push(`switch ${from.id} ${to.id}`),
    },
    isCut: () => isCut,
    ...(options.again && { again: () => options.again?.(() => cancellation.cancel()) ?? Promise.resolve() }),
    onCall: (call) => {
      calls += call === null ? -1 : 1;
    },
  };
  return {
    world,
    cancellation,
    listener,
    told,
    cut: () => {
      isCut = true;
    },
    run: () => callModel(plan, world.env),
    /** The number of active calls, as reported to the plan. */
    get calls(): number {
      return calls;
    },
  };
}

/** The number of requests for a model so far. */
function asked(model: string): number {
  return mock.requests.filter((request) => request.model === model).length;
}

/** A model that answers on demand, and reports when a request is there. */
function hanging(model: string): Promise<void> {
  const arrived = Promise.withResolvers<void>();
  mock.answer(model, () => {
    arrived.resolve();
    return { steps: [{ hold: "forever" }] };
  });
  return arrived.promise;
}

test("a successful call is made once, and its route is named", async () => {
  const model = fresh();
  mock.answer(model, { text: "Hello." });
  const call = prepare([routeTo(model), routeTo("never")]);

  const { reply, route } = await call.run();

  assert.equal(reply.text, "Hello.");
  assert.equal(route.id, model);
  assert.deepEqual(call.told, [`ok ${model}`]);
  assert.equal(asked(model), 1);
  assert.equal(call.calls, 0);
});

test("a transient failure is retried, after growing pauses", async () => {
  const model = fresh();
  mock.answer(model, failure(503), failure(500), { text: "Third." });
  const call = prepare([routeTo(model)]);

  const { reply } = await call.run();

  assert.equal(reply.text, "Third.");
  assert.deepEqual(call.world.delays, [500, 1000]);
  assert.deepEqual(call.told, [
    `error ${model}`,
    `retry ${model} 503`,
    `error ${model}`,
    `retry ${model} 500`,
    `ok ${model}`,
  ]);
});

test("a lost connection before the first text is retried", async () => {
  const model = fresh();
  mock.answer(model, { steps: [{ cut: "reset" }] }, { text: "Second." });

  const { reply } = await prepare([routeTo(model)]).run();

  assert.equal(reply.text, "Second.");
});

test("Retry-After sets the pause", async () => {
  const model = fresh();
  mock.answer(model, failure(429, { "retry-after": "12" }), failure(429, { "retry-after": "0" }), { text: "Third." });
  const call = prepare([routeTo(model)]);

  await call.run();

  assert.deepEqual(call.world.delays, [12_000, 0]);
});

test("a provider that asks for a longer wait than allowed is skipped at once", async () => {
  const [busy, other] = [fresh(), fresh()];
  mock.answer(busy, failure(429, { "retry-after": "31" }));
  mock.answer(other, { text: "Other." });
  const call = prepare([routeTo(busy), routeTo(other)]);

  const { route } = await call.run();

  assert.equal(route.id, other);
  assert.deepEqual(call.world.delays, []);
  assert.equal(asked(busy), 1);
});

test("SPEC-016 fallbacks follow in order, and the answering one sets the rates", async () => {
  const [first, second, third] = [fresh(), fresh(), fresh()];
  mock.answer(first, failure(503));
  mock.answer(second, failure(400));
  mock.answer(third, {
    text: "Third.",
    usage: { prompt_tokens: 1_000_000, completion_tokens: 1_000_000, total_tokens: 2_000_000 },
  });
  const price = (input: number) => ({ input, output: input * 2, cache_read: input, cache_write: input });
  const call = prepare([
    routeTo(first, { price: price(100) }),
    routeTo(second, { price: price(10) }),
    routeTo(third, { price: price(1) }),
  ]);

  const { reply, route } = await call.run();
  const meter = new UsageMeter();
  assert.ok(reply.usage);
  meter.add({
    env: call.world.env,
    manifestId: "m",
    route,
    price: route.price,
    threadId: "",
    requestId: "r",
    tokens: reply.usage,
    estimated: false,
  });

  assert.equal(route.id, third);
  assert.deepEqual([asked(first), asked(second), asked(third)], [3, 1, 1]);
  assert.deepEqual(
    call.told.filter((line) => line.startsWith("switch")),
    [`switch ${first} ${second}`, `switch ${second} ${third}`],
  );
  assert.equal(meter.total?.cost.total, 3);
});

test("ERR-008 when every route fails, the last failure is reported, as a 502", async () => {
  const [first, second] = [fresh(), fresh()];
  mock.answer(first, failure(400));
  mock.answer(second, failure(404));

  const run = prepare([routeTo(first), routeTo(second)]).run();

  await assert.rejects(run, (failed) => failed instanceof ModelFailure && failed.status === 404);
  assert.equal(errorTable.model_provider_error.status, 502);
});

test("a permanent failure is not retried", async () => {
  for (const status of [400, 401, 404]) {
    const model = fresh();
    mock.answer(model, failure(status));
    const call = prepare([routeTo(model)]);

    await assert.rejects(call.run(), { status });

    assert.equal(asked(model), 1);
    assert.deepEqual(call.world.delays, []);
  }
});

test("a call that has sent text gets neither a retry nor a fallback", async () => {
  const other = fresh();
  mock.answer(other, { text: "Other." });

  for (const broken of ["mock-truncated", "mock-reset", "mock-error-in-stream"]) {
    const before = asked(broken);
    const call = prepare([routeTo(broken), routeTo(other)]);

    await assert.rejects(call.run(), { partial: "Hello" });

    assert.equal(asked(broken), before + 1);
    assert.equal(call.listener.text, "Hello");
  }
  assert.equal(asked(other), 0);
});

test("a silent provider is not asked again, and its fallback is", async () => {
  const [silent, other] = [fresh(), fresh()];
  mock.answer(silent, { steps: [{ hold: "forever" }] });
  mock.answer(other, { text: "Other." });
  const call = prepare([routeTo(silent), routeTo(other)], { timeoutMs: 500 });

  const { route } = await call.run();

  assert.equal(route.id, other);
  assert.equal(asked(silent), 1);
  assert.deepEqual(call.told, [`error ${silent}`, `timeout ${silent}`, `switch ${silent} ${other}`, `ok ${other}`]);
});

test("a model without a credential is refused, and its fallbacks are not called", async () => {
  const other = fresh();
  const call = prepare([routeTo("x", { provider: "nobody" }), routeTo(other)]);

  await assert.rejects(call.run(), (error) => error instanceof SvcError && error.code === "model_not_configured");

  assert.equal(asked(other), 0);
});

test("a fallback without a credential is skipped", async () => {
  const [broken, other] = [fresh(), fresh()];
  mock.answer(broken, failure(400));
  mock.answer(other, { text: "Other." });
  const unconfigured = routeTo("x", { provider: "nobody" });

  const call = prepare([routeTo(broken), unconfigured, routeTo(other)]);
  const { route } = await call.run();

  assert.equal(route.id, other);
  assert.deepEqual(call.told, [`error ${broken}`, `switch ${broken} ${other}`, `ok ${other}`]);
  await assert.rejects(prepare([routeTo(broken), unconfigured]).run(), { status: 400 });
});

test("a run that is stopped while the model is silent ends at once", async () => {
  const [model, other] = [fresh(), fresh()];
  const arrived = hanging(model);
  const call = prepare([routeTo(model), routeTo(other)]);
  const run = call.run();
  await arrived;

  call.cancellation.cancel();

  await assert.rejects(run, { message: "aborted", partial: "" });
  assert.deepEqual(call.told, [`aborted ${model}`]);
  assert.equal(await mock.requests.at(-1)?.ended, "gone");
  assert.equal(asked(other), 0);
});

test("a run that is stopped between two tries ends at once", async () => {
  const [model, other] = [fresh(), fresh()];
  mock.answer(model, failure(503));
  const call = prepare([routeTo(model), routeTo(other)], { holdTimers: true });
  const pausing = call.world.timerSet();
  const run = call.run();
  await pausing;

  call.cancellation.cancel();

  await assert.rejects(run, { status: 503 });
  assert.equal(call.world.waiting, 0);
  assert.deepEqual([asked(model), asked(other)], [1, 0]);
});

test("a stopped run does not prepare another try", async () => {
  const model = fresh();
  let needed = 0;
  mock.answer(model, failure(503));
  const call = prepare([routeTo(model)], { holdTimers: true, again: async () => void needed++ });
  const pausing = call.world.timerSet();
  const run = call.run();
  await pausing;

  call.cancellation.cancel();

  await assert.rejects(run, { status: 503 });
  assert.equal(needed, 0);
});

test("a run that is stopped while a fallback is prepared calls no provider", async () => {
  const [model, other] = [fresh(), fresh()];
  mock.answer(model, failure(400));
  const call = prepare([routeTo(model), routeTo(other)], { again: async (stop) => stop() });

  await assert.rejects(call.run(), { status: 400 });

  assert.deepEqual(call.told, [`error ${model}`]);
  assert.equal(asked(other), 0);
});

test("a call that is ended on purpose before any text is not retried or moved", async () => {
  const [model, other] = [fresh(), fresh()];
  const thinks = 'data: {"choices":[{"delta":{"reasoning":"Hm"}}]}\n\n';
  mock.answer(model, { steps: [{ send: thinks }, { cut: "reset" }] });
  const call = prepare([routeTo(model), routeTo(other)]);
  call.listener.events.reasoning = call.cut;

  await assert.rejects(call.run(), { name: "ModelFailure" });

  assert.deepEqual([asked(model), asked(other)], [1, 0]);
  assert.deepEqual(call.told, [`aborted ${model}`]);
});

test("a run that is stopped while the model streams keeps its text", async () => {
  const spoke = Promise.withResolvers<void>();
  const model = fresh();
  mock.answer(model, { steps: [{ send: 'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n' }, { hold: "forever" }] });
  const call = prepare([routeTo(model)]);
  const say = call.listener.events.text;
  call.listener.events.text = (delta) => {
    say(delta);
    spoke.resolve();
  };
  const run = call.run();
  await spoke.promise;
  const underWay = call.calls;

  call.cancellation.cancel();

  await assert.rejects(run, { message: "aborted", partial: "Hel" });
  assert.deepEqual([underWay, call.calls], [1, 0]);
});

test("a run that was stopped before waits for no request", async () => {
  const model = fresh();
  const call = prepare([routeTo(model)]);
  call.cancellation.cancel();

  await assert.rejects(call.run(), { message: "aborted" });

  assert.deepEqual(call.told, [`aborted ${model}`]);
});
