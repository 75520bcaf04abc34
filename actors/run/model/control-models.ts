import { hash } from "node:crypto";
import type { ControlDecided, ControlDecision, ControlQuestion } from "../../../governance/controls/control.ts";
import { digestJson } from "../../../manifests/canonical-json.ts";
import { imageTypeOf } from "../../../storage/files/image-type.ts";
import type { ModelImage } from "../../models/images.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import { AskedOnce } from "../context/decisions.ts";
import type { ControlModels, RunContext } from "../context/run-context.ts";
import { decide } from "./decide.ts";
import { askAside } from "./side-question.ts";

// Questions of controls to models, within the limits and the budget of the run (decision 113: once for each text and rule, a few at once,
// and for 20 seconds at most).

/** Time limit of a question. */
const deadlineMs = 20_000;

export const controlModels: ControlModels = { ask, decide: decideForControl };

/** Asks a model. Null without a usable answer. */
function ask(runContext: RunContext, question: ControlQuestion): Promise<unknown> {
  const { task, given, answer, images = [], routes = runContext.step.routes } = question;
  runContext.run.questions ??= new AskedOnce();
  const shown = images.map((image) => hash("sha256", image));
  const key = digestJson({ task, given, answer: answer.json, images: shown, routes: routes.map(({ id }) => id) });
  return runContext.run.questions.once(key, () => askInTime(runContext, { ...question, routes }));
}

async function askInTime(
  runContext: RunContext,
  { task, given, answer, kind, images = [], routes = [] }: ControlQuestion,
): Promise<unknown> {
  const until = new Cancellation();
  const stopListening = runContext.cancellation.onCancel(() => until.cancel());
  const timer = runContext.deps.env.timer(deadlineMs, () => until.cancel());
  try {
    const seen = await Promise.all(images.map(modelImage));
    if (seen.includes(null)) return null;
    const asked = await askAside<unknown>(runContext, {
      ...{ routes, task, given, answer, until },
      ...(kind && { kind }),
      images: seen.filter((image) => image !== null),
    });
    return asked.kind === "answer" ? asked.value : null;
  } finally {
    timer.cancel();
    stopListening();
  }
}

/** Null for bytes that are no image. */
async function modelImage(bytes: Uint8Array): Promise<ModelImage | null> {
  const media_type = await imageTypeOf(bytes);
  const { buffer, byteOffset, byteLength } = bytes;
  const base64 = Buffer.from(buffer, byteOffset, byteLength).toString("base64");
  return media_type === null ? null : { kind: "bytes", media_type, base64 };
}

async function decideForControl(runContext: RunContext, question: ControlDecision): Promise<ControlDecided> {
  const decided = await decide(runContext, question);
  return decided.kind === "decided"
    ? { kind: "decided", choice: decided.choice, probabilities: decided.probabilities }
    : { kind: decided.kind };
}
