import { createHash } from "node:crypto";
import type { Tool as RemoteTool } from "@modelcontextprotocol/client";
import { canonicalJson } from "../../../manifests/canonical-json.ts";
import { argumentsSchemaFault } from "../../../manifests/fields/arguments-schema.ts";

/** A tool as a server lists it, in the form that svc uses. */
export interface ListedTool {
  readonly name: string;
  /** Cut and without invisible characters: the text is untrusted. */
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** SHA-256 of name, description, schemas and annotations, in hexadecimal. */
  readonly digest: string;
}

const descriptionCharsMax = 1024;
const instructionCharsMax = 4096;
const schemaBytesMax = 64 * 1024;

/**
 * Format characters, private use and unassigned ones: a text may hide instructions from people in them. Line breaks and tabs stay.
 */
const invisible = /[\p{Cf}\p{Co}\p{Cn}\p{Cs}]|(?![\n\t])\p{Cc}/gu;

/** Any object: for a server's schema that svc does not support or that is too large. */
const anyObject = { type: "object" } as const;

/** A server's instructions for its tools. */
export interface Instructions {
  /** Cut and without invisible characters: the text is untrusted. */
  readonly text: string;
  /** SHA-256 of the whole text, in hexadecimal. */
  readonly digest: string;
}

/** Reads the instructions of a server; null if it has none. */
export function readInstructions(text = ""): Instructions | null {
  const shown = plain(text, instructionCharsMax).trim();
  return shown === "" ? null : { text: shown, digest: createHash("sha256").update(text).digest("hex") };
}

/** Reads a listed tool. */
export function readListed({ name, description = "", inputSchema, outputSchema, annotations }: RemoteTool): ListedTool {
  const hashed = {
    name,
    description,
    inputSchema,
    outputSchema: outputSchema ?? null,
    annotations: annotations ?? null,
  };
  return {
    name,
    description: plain(description, descriptionCharsMax),
    parameters: parametersOf(inputSchema),
    digest: createHash("sha256").update(canonicalJson(hashed)).digest("hex"),
  };
}

function plain(text: string, charsMax: number): string {
  return text.replace(invisible, "").slice(0, charsMax).toWellFormed();
}

function parametersOf(schema: RemoteTool["inputSchema"]): ListedTool["parameters"] {
  const { $schema: _dialect, ...plain } = schema as Readonly<Record<string, unknown>>;
  if (JSON.stringify(plain).length > schemaBytesMax) return anyObject;
  return argumentsSchemaFault(plain) === null ? plain : anyObject;
}
