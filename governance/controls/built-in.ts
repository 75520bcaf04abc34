import { approvals } from "./approvals.ts";
import { artifacts } from "./artifacts.ts";
import type { MakeControl } from "./control.ts";
import { limits } from "./limits.ts";
import { permissionModes } from "./permission-modes.ts";
import { policies } from "./policies.ts";
import { secretMasking } from "./secret-masking.ts";

/** The built-in controls. `callOrder` and `resultOrder` decide their order, not this list. */
export const builtInControls: readonly MakeControl[] = [
  secretMasking,
  limits,
  policies,
  permissionModes,
  approvals,
  artifacts,
];
