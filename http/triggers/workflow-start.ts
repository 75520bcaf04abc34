import { createHash } from "node:crypto";
import { workflowAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import { below } from "../../governance/workflows/references.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { liveWorkflow, workflowRevision } from "../../storage/tables/workflows.ts";
import type { HttpContext } from "../context.ts";
import { type DeliveryAnswer, type DeliveryKey, rememberDelivery } from "./deliveries.ts";
import type { TriggerEvent } from "./event.ts";

// A delivery that starts a run of a workflow. The id of the run is derived from the delivery, so a delivery that is sent again after a crash
// finds its run.

/** True if a trigger's workflow and revision exist. */
export async function hasWorkflow(store: TenantStore, { workflow, revision }: Trigger): Promise<boolean> {
  const row = workflow === null ? undefined : await liveWorkflow(store, workflow);
  if (row === undefined) return false;
  return revision === null || (await workflowRevision(store, row.id, revision)) !== undefined;
}

/** Starts the run of a delivery and stores the answer. Refuses as the start of a run does, with invalid_payload for unfit inputs. */
export async function startWorkflow(
  trigger: Trigger & { readonly workflow: string },
  principal: Principal,
  key: DeliveryKey,
  { event, delivery }: { readonly event: TriggerEvent; readonly delivery: string },
  context: HttpContext,
): Promise<DeliveryAnswer> {
  const { tenant_id, workflow, revision } = trigger;
  const store = context.store.tenant(tenant_id);
  const run_id = createHash("sha256")
    .update(JSON.stringify([tenant_id, trigger.id, key.scope, key.fingerprint]))
    .digest("hex")
    .slice(0, 32);
  const inputs = inputsOf(trigger, event, delivery);
  try {
    await context.bus.ask(workflowAddress(tenant_id, run_id), "start", {
      ...{ principal, workflow_id: workflow, revision, inputs: toJsonText(inputs) },
      ...{ cause: "trigger" as const, taint: ["trigger"] },
    });
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.code !== "invalid_request") throw error;
    throw new SvcError("invalid_payload", { detail: refusal.details.detail });
  }
  const answer = { status: 202, body: { status: "accepted", run_id } };
  await rememberDelivery(store, key, answer, context, run_id);
  return answer;
}

/** Returns the inputs that the trigger's map reads from a delivery. A pointer to nothing is null. */
function inputsOf({ inputs }: Trigger, { name, payload }: TriggerEvent, delivery: string): Record<string, unknown> {
  const body: unknown = JSON.parse(payload);
  return Object.fromEntries(
    Object.entries(inputs).map(([input, pointer]) => {
      if (pointer === "$event") return [input, name];
      return [input, pointer === "$delivery" ? delivery : below(body, pointerParts(pointer))];
    }),
  );
}

function pointerParts(pointer: string): string[] {
  const [, ...parts] = pointer.split("/");
  return parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}
