import type { StepKind } from "../step-kind.ts";
import { agent } from "./agent.ts";
import { approval } from "./approval.ts";
import { condition } from "./condition.ts";
import { map } from "./map.ts";
import { merge } from "./merge.ts";
import { template } from "./template.ts";
import { toolCall } from "./tool-call.ts";
import { wait } from "./wait.ts";

/** The kinds of steps that ship with svc. */
export const builtInKinds: readonly StepKind[] = [agent, toolCall, template, condition, map, approval, wait, merge];
