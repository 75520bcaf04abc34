import { soundText } from "../../../bus/sound-text.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { includesTenant } from "../../../governance/settings/tenant-list.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ContainerTool } from "../../../manifests/sections/containers.ts";
import type { SandboxTool } from "../../../manifests/sections/sandboxes.ts";
import { errorOfStatus, requestFailure } from "../request-failure.ts";
import type { Requester } from "../services.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { secretParts, withoutSecrets } from "../without-secrets.ts";

// spec.containers and spec.sandboxes: programs of a gateway, which takes POST {url}/run and answers with the output.

/** Max bytes of an answer: output, and four images as base64. */
const answerBytesMax = 5 * 1024 * 1024;
/** Time after the program's timeout in which the gateway must answer. */
const answerMs = 10_000;
/** Max characters of the output that the model reads. */
const outputCharsMax = 1024 * 1024;
const imagesMax = 4;

/** The settings of gateways. */
export type GatewaySettings = Pick<Settings, "containerGatewayUrl" | "containerGatewayAuth" | "sandboxes">;

/** Returns the source of the tools in spec.containers and spec.sandboxes. */
export function gatewayToolSource(settings: GatewaySettings): ToolSource {
  return {
    name: "spec.containers and spec.sandboxes",
    offers: [],
    resolve(name: string, { containers, sandboxes }: CompiledAgent) {
      const container = containers.get(name);
      if (container !== undefined) return containerTool(container, settings);
      const sandbox = sandboxes.get(name);
      return sandbox && sandboxTool(sandbox, settings);
    },
  };
}

/** A gateway, and how it is reached. */
interface Gateway {
  readonly url: string;
  /** A credential or its reference; null for none. */
  readonly auth: string | null;
  readonly requester: Requester;
}

function containerTool(declared: ContainerTool, settings: GatewaySettings): Tool {
  const { image, url, auth } = declared;
  return {
    ...declared,
    ...remote(declared.timeoutMs),
    execute(args: object, context) {
      const { agent, operator } = context.services.egress;
      if (url !== null) return call({ url, auth, requester: agent }, declared.timeoutMs, { image, args }, context);
      const { containerGatewayUrl, containerGatewayAuth } = settings;
      if (containerGatewayUrl === "") return toolError("transport_unavailable", "no container gateway is configured");
      const own = auth ?? (containerGatewayAuth === "" ? null : containerGatewayAuth);
      const gateway = { url: containerGatewayUrl, auth: own, requester: operator };
      return call(gateway, declared.timeoutMs, { image, args }, context);
    },
  };
}

function sandboxTool(declared: SandboxTool, { sandboxes }: GatewaySettings): Tool {
  const { binding, pathPrefix } = declared;
  return {
    ...declared,
    ...remote(declared.timeoutMs),
    execute({ path, args = {} }: { readonly path: string; readonly args?: object }, context) {
      const entry = Object.hasOwn(sandboxes, binding) ? sandboxes[binding] : undefined;
      if (entry === undefined || !includesTenant(entry.tenants, context.tenantId))
        return toolError("transport_unavailable", "the sandbox is not configured");
      const whole = pathPrefix === "" ? path : `${pathPrefix.replace(/\/$/, "")}/${path}`;
      if (path.includes("\0") || path.split("/").some((name) => name === ".." || name === "."))
        return toolError("invalid_arguments", "the path has . or .. between its slashes");
      if (pathPrefix !== "" && path.startsWith("/"))
        return toolError("invalid_arguments", `the path is absolute: give it below ${pathPrefix}`);
      const gateway = { url: entry.url, auth: entry.auth, requester: context.services.egress.operator };
      return call(gateway, declared.timeoutMs, { binding, path: whole, args }, context);
    },
  };
}

function remote(timeoutMs: number): Pick<Tool, "transport" | "timeoutMs"> {
  // Later than the deadline of the request, which has the better message.
  return { transport: "remote", timeoutMs: timeoutMs + answerMs + 15_000 };
}

async function call(
  { url, auth, requester }: Gateway,
  timeout_ms: number,
  asked: object,
  { tenantId, threadSuffix, key, services }: ToolContext,
): Promise<ToolResult> {
  const secret = auth === null ? null : await services.secrets.resolve(auth).catch(() => undefined);
  if (secret === undefined) return toolError("permission_denied", "the credential of the gateway is not set");
  const thread = threadSuffix === null ? {} : { thread_id: `${tenantId}:${threadSuffix}` };
  const body = { ...asked, timeout_ms, tenant_id: tenantId, ...thread, key };
  try {
    const answer = await requester.whole(
      {
        method: "POST",
        url: `${url.replace(/\/$/, "")}/run`,
        headers: {
          "content-type": "application/json",
          "idempotency-key": key,
          ...(secret !== null && { authorization: secret.includes(" ") ? secret : `Bearer ${secret}` }),
        },
        body: JSON.stringify(body),
        timeoutMs: timeout_ms + answerMs,
        follows: false,
      },
      answerBytesMax,
    );
    const secrets = [...answer.secrets, ...(secret === null ? [] : secretParts(secret))];
    if (answer.status !== 200) {
      const text = withoutSecrets(soundText(answer.bytes.toString("utf8").slice(0, 500)), secrets);
      return {
        ...toolError(errorOfStatus(answer.status), `the gateway answered ${answer.status}: ${text}`),
        ...tainted,
      };
    }
    if (answer.isCut) return toolError("provider_error", `the answer is longer than ${answerBytesMax} bytes`);
    return resultOf(JSON.parse(answer.bytes.toString("utf8")), secrets);
  } catch (error) {
    if (error instanceof SyntaxError) return toolError("provider_error", "the gateway has not answered with JSON");
    return requestFailure(error, timeout_ms + answerMs);
  }
}

const tainted = { taint: ["sandbox"] };

/** Reads {exit_code, output, images}. Images of another form are left out. */
function resultOf(answer: unknown, secrets: readonly string[]): ToolResult {
  const { exit_code, output, images, timed_out } = (answer ?? {}) as Partial<Record<string, unknown>>;
  if (typeof output !== "string" || !(exit_code === null || Number.isInteger(exit_code)))
    return toolError("provider_error", "the gateway has not answered with exit_code and output");
  const cut = output.length > outputCharsMax ? `${output.slice(0, outputCharsMax)}\n[truncated]` : output;
  const shown = withoutSecrets(soundText(cut), secrets);
  const found = (Array.isArray(images) ? images : []).flatMap(imageOf).slice(0, imagesMax);
  const isLate = timed_out === true;
  return {
    text: JSON.stringify({ exit_code, output: shown, ...(isLate && { timed_out: true }) }),
    ...tainted,
    ...(found.length > 0 && { images: found }),
    ...(isLate && { error: "timeout" as const }),
  };
}

/** Reads an image: base64, or an object with `data` and `filename`. */
function imageOf(value: unknown): { data: Uint8Array; filename: string }[] {
  const { data, filename } = (typeof value === "string" ? { data: value } : (value ?? {})) as Partial<
    Record<string, unknown>
  >;
  if (typeof data !== "string") return [];
  const name = typeof filename === "string" ? soundText(filename).slice(0, 100) : "image";
  return [{ data: Buffer.from(data, "base64"), filename: name }];
}
