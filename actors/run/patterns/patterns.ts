import type { Pattern } from "../pattern.ts";
import { react } from "./react.ts";

/** Every loop that an agent can have, by its name in spec.pattern. */
export const patterns: ReadonlyMap<string, Pattern> = new Map([["react", react]]);
