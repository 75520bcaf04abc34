/** Options of a request in the OpenAI protocol, besides its messages. */
export interface TurnOptions {
  /** Tools in addition to the manifest's; the client executes their calls. */
  readonly tools: readonly RequestTool[];
  /** Null for the model's default. */
  readonly tool_choice: ToolChoice | null;
  /** Null for the model's default. */
  readonly parallel_tool_calls: boolean | null;
  /** Required format of the reply; null for none. The manifest's format has precedence. */
  readonly response_format: ResponseFormat | null;
  /** Stop sequences, up to four. */
  readonly stop: readonly string[];
}

/** Format of a JSON reply: any object, or one that matches a schema. */
export type ResponseFormat =
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly name: string;
      readonly schema: Readonly<Record<string, unknown>>;
      readonly strict: boolean | null;
    };

/** A tool of the requesting client. */
export interface RequestTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, passed to the model unchanged and not compiled. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict: boolean | null;
}

/** Which tools the first model call of a turn may or must call; `none` applies to all of its calls. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };
