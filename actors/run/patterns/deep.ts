import type { Pattern } from "../steps/pattern.ts";
import { react } from "./react.ts";

/** The loop of an agent that plans: `react`, with the plan tools of manifests/sections/tools.ts bound. */
export const deep: Pattern = react;
