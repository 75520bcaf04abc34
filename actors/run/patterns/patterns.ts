import type { Pattern } from "../steps/pattern.ts";
import { deep } from "./deep.ts";
import { groupchat } from "./groupchat.ts";
import { parallel } from "./parallel.ts";
import { planExecute } from "./plan-execute.ts";
import { react } from "./react.ts";
import { reflect } from "./reflect.ts";
import { router } from "./router.ts";

/** Every built-in loop, by its name in spec.pattern. */
export const patterns: ReadonlyMap<string, Pattern> = new Map([
  ["react", react],
  ["deep", deep],
  ["reflect", reflect],
  ["plan_execute", planExecute],
  ["router", router],
  ["parallel", parallel],
  ["groupchat", groupchat],
]);
