import type { Migration } from "../store/migration.ts";
import { migration as baseline } from "./0000_baseline.ts";
import { migration as artifacts } from "./0100_artifacts.ts";
import { migration as a2aTasks } from "./0101_a2a_tasks.ts";
import { migration as mcpPins } from "./0102_mcp_pins.ts";

/** Every migration, in the order of their revisions. */
export const migrations: readonly Migration[] = [baseline, artifacts, a2aTasks, mcpPins];
