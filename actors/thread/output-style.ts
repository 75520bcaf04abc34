import { SvcError } from "../../bus/errors.ts";
import type { PickedStyle, PickStyle } from "../../bus/protocol/thread.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { agentOf, keep, untouched } from "./kept.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Stores the output style for later runs; a live run keeps its own. Removing the style needs no manifest, so it works after the
 * manifest was deleted.
 */
export async function pickStyle(
  state: ThreadState,
  asked: PickStyle,
  context: ActorContext<ThreadDeps>,
): Promise<PickedStyle> {
  await untouched(state);
  const isNeeded = asked.style !== null || asked.manifest !== null;
  const style = declaredName(await agentOf(state, asked, isNeeded, context.deps), asked.style);
  await untouched(state);
  if ((state.head?.meta.output_style ?? null) === style) return { style };
  await keep(state, { output_style: style ?? undefined }, null, context);
  return { style };
}

/** Returns the style's name as the manifest spells it. */
function declaredName(agent: CompiledAgent | null, style: string | null): string | null {
  if (style === null) return null;
  const declared = agent?.outputStyles.get(style.toLowerCase());
  if (declared === undefined) throw new SvcError("unknown_style", { subject: style });
  return declared.name;
}
