import { isBelow } from "../../../governance/egress/credentials.ts";
import type { WholeAnswer } from "../../../governance/egress/outgoing.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { HttpTool } from "../../../manifests/sections/http-tools.ts";
import { errorOfStatus, requestFailure } from "../request-failure.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { withoutSecrets } from "../without-secrets.ts";
import { contentOf } from "./content.ts";

// spec.http_tools: requests to web addresses that the model chooses, within the prefix of the tool and the hosts of the agent.

/** The source of tools in spec.http_tools. */
export const httpToolSource: ToolSource = {
  name: "spec.http_tools",
  offers: [],
  resolve(name: string, { httpTools }: CompiledAgent) {
    const declared = httpTools.get(name);
    return declared && httpTool(declared);
  },
};

interface Arguments {
  readonly url: string;
  readonly method?: string;
  readonly body?: string;
}

function httpTool(declared: HttpTool): Tool {
  return {
    ...declared,
    transport: "remote",
    // Later than the timeout of the request, which has the better message.
    timeoutMs: declared.timeoutMs + 15_000,
    execute: (args: Arguments, context) => call(declared, args, context),
  };
}

async function call(tool: HttpTool, { url: text, method, body }: Arguments, context: ToolContext): Promise<ToolResult> {
  const { prefix, methods, timeoutMs, bytesMax, leavesOrigin } = tool;
  const url = URL.parse(text, prefix === "" ? undefined : prefix);
  if (url === null) return toolError("invalid_arguments", "url is not a URL");
  const base = prefix === "" ? null : new URL(prefix);
  if (base !== null && !(url.origin === base.origin && isBelow(url.pathname, base.pathname)))
    return toolError("permission_denied", `egress_blocked: the address is not below ${prefix}`);
  const { egress, compute } = context.services;
  const verb = method ?? methods[0] ?? "GET";
  let answer: WholeAnswer;
  try {
    answer = await egress.agent.whole(
      {
        url: url.href,
        method: verb,
        headers: headersOf(verb, body, tool, context),
        body: body ?? null,
        timeoutMs,
        ...(!leavesOrigin && { stays: (next: URL) => next.origin === url.origin }),
      },
      bytesMax,
    );
  } catch (error) {
    return requestFailure(error, timeoutMs);
  }
  const { text: content, images } = await contentOf(answer, tool.format, compute);
  const cut = answer.isCut ? `\n[cut: the answer is longer than ${bytesMax} bytes]` : "";
  const head = `HTTP ${answer.status} ${answer.url}${typeOf(answer)}`;
  const shown = withoutSecrets(`${head}\n\n${content}${cut}`, answer.secrets);
  const taint = [`web:${new URL(answer.url).hostname}`];
  if (answer.status >= 400) return { ...toolError(errorOfStatus(answer.status), shown), taint };
  return { text: shown, taint, ...(images.length > 0 && { images }) };
}

function headersOf(verb: string, body: string | undefined, { effect }: HttpTool, { key }: ToolContext) {
  return {
    "user-agent": "svc",
    accept: "text/html, application/json, text/*;q=0.9, */*;q=0.5",
    ...(body !== undefined && { "content-type": isJson(body) ? "application/json" : "text/plain; charset=utf-8" }),
    // Lets a server that knows the header run the request once, also after a crash (decision 15).
    ...(effect !== "read" && verb !== "GET" && verb !== "HEAD" && { "idempotency-key": key }),
  };
}

function isJson(body: string): boolean {
  try {
    JSON.parse(body);
    return true;
  } catch {
    return false;
  }
}

function typeOf({ headers }: WholeAnswer): string {
  const type = headers["content-type"];
  return type === undefined ? "" : ` (${type.slice(0, 100)})`;
}
