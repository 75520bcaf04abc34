import type { RunnerCommand, RunnerInput, RunnerRun } from "../../../governance/processes/runner-protocol.ts";

/** A request that the runner refuses. */
export class RunnerFault extends Error {
  override readonly name = "RunnerFault";
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

const argumentsMax = 256;
const keepBytesMax = 1024 * 1024;
const timeoutMsMax = 3_600_000;
const filesMax = 256;

/** Reads the body of POST /commands. */
export function readCommand(body: unknown): RunnerCommand {
  const { tenant_id, argv, env, folder, keep_bytes } = fields(body);
  if (!isArguments(argv) || argv.length === 0) refuse("invalid_argv");
  if (!isTexts(env)) refuse("invalid_env");
  if (
    keep_bytes !== null &&
    !(Number.isInteger(keep_bytes) && Number(keep_bytes) >= 2 && Number(keep_bytes) <= keepBytesMax)
  )
    refuse("invalid_keep_bytes");
  return {
    tenant_id: textOf(tenant_id, "tenant_id"),
    ...{ argv, env, folder: folder === null ? null : folderOf(folder) },
    keep_bytes: keep_bytes as number | null,
  };
}

/** Reads the body of POST /commands/{id}/input. */
export function readInput(body: unknown): RunnerInput {
  const { data, end } = fields(body);
  if (typeof end !== "boolean") refuse("invalid_end");
  return { data: textOf(data, "data"), end };
}

/** Reads the body of POST /run. */
export function readRun(body: unknown): RunnerRun {
  const { image, binding, argv = [], path, args, files = {}, timeout_ms = 300_000, tenant_id = "", key } = fields(body);
  if ((image === undefined) === (binding === undefined)) refuse("image_or_binding");
  if (!isArguments(argv)) refuse("invalid_argv");
  if (
    !isTexts(files) ||
    Object.keys(files).length > filesMax ||
    !Object.keys(files).every((name) => name !== "" && isFolderName(name))
  )
    refuse("invalid_files");
  if (!(Number.isInteger(timeout_ms) && Number(timeout_ms) >= 1 && Number(timeout_ms) <= timeoutMsMax))
    refuse("invalid_timeout_ms");
  return {
    ...(image !== undefined && { image: textOf(image, "image") }),
    ...(binding !== undefined && { binding: textOf(binding, "binding") }),
    ...(path !== undefined && { path: textOf(path, "path") }),
    ...(args !== undefined && { args }),
    ...(key !== undefined && { key: textOf(key, "key") }),
    ...{ argv, files, timeout_ms: Number(timeout_ms), tenant_id: textOf(tenant_id, "tenant_id") },
  };
}

/** True for a relative path of plain names; empty for none. */
export function isFolderName(path: string): boolean {
  return (
    path === "" || path.split("/").every((name) => name !== "" && name !== "." && name !== ".." && !name.includes("\0"))
  );
}

function folderOf(value: unknown): NonNullable<RunnerCommand["folder"]> {
  const { below, cwd, hidden } = fields(value);
  if (!isArguments(hidden)) refuse("invalid_folder");
  return { below: textOf(below, "folder"), cwd: textOf(cwd, "folder"), hidden };
}

function fields(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse("invalid_body");
  return value as Record<string, unknown>;
}

function isArguments(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.length <= argumentsMax &&
    value.every((one) => typeof one === "string" && !one.includes("\0"))
  );
}

function isTexts(value: unknown): value is Readonly<Record<string, string>> {
  return typeof value === "object" && value !== null && Object.values(value).every((one) => typeof one === "string");
}

function textOf(value: unknown, name: string): string {
  if (typeof value !== "string" || value.includes("\0")) refuse(`invalid_${name}`);
  return value;
}

function refuse(code: string): never {
  throw new RunnerFault(400, code);
}
