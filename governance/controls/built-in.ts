import { approvals } from "./approvals.ts";
import { artifacts } from "./artifacts.ts";
import { commandScreening } from "./command.ts";
import { contentScreening, inboundScreening } from "./content-screening.ts";
import type { MakeControl, MakeInputControl } from "./control.ts";
import { evaluation } from "./evaluation.ts";
import { guardrails, guardrailsOfInput } from "./guardrails.ts";
import { hooks } from "./hooks.ts";
import { judges } from "./judges.ts";
import { limits } from "./limits.ts";
import { permissionModes } from "./permission-modes.ts";
import { policies } from "./policies.ts";
import { secretMasking } from "./secret-masking.ts";

/** The built-in controls. `callOrder` and `resultOrder` decide their order, not this list. */
export const builtInControls: readonly MakeControl[] = [
  secretMasking,
  limits,
  policies,
  evaluation,
  permissionModes,
  commandScreening,
  hooks,
  guardrails,
  judges,
  approvals,
  contentScreening,
  artifacts,
];

/** The built-in controls of callers' messages. */
export const builtInInputControls: readonly MakeInputControl[] = [inboundScreening, guardrailsOfInput];
