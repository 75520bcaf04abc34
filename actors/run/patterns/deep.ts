import type { Pattern } from "../steps/pattern.ts";
import { react } from "./react.ts";

/** The loop of one agent that plans: the same, with the plan tools bound. See manifests/sections/tools.ts. */
export const deep: Pattern = react;
