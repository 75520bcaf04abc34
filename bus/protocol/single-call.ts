import type { JsonText } from "./json-text.ts";
import type { Principal } from "./principal.ts";

// A run that calls one tool and no model, as a client of MCP asks for it.

/** The call of such a run. */
export interface SingleCall {
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** A caller that wants to know which tools it may call. */
export interface ToolsAsked {
  readonly principal: Principal;
  readonly manifest: string;
}

/** The tools of an agent that need no thread and no person, in the order of the agent. */
export interface OfferedTools {
  readonly tools: JsonText<readonly OfferedTool[]>;
}

/** A tool as a client sees it. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
}
