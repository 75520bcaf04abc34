// What a setting is, and the kinds of value there are. A kind knows how to read the text of an environment variable; a text that
// it cannot read is refused with a reason that never repeats the text, because it may be a secret.

/** One setting, declared as data. */
export interface Setting<T> {
  /** As the environment names it. */
  readonly name: string;
  /** In documents: int, bool, csv … */
  readonly kind: string;
  readonly default: T;
  /** The default in words, where it follows from something else; null where it is a value. */
  readonly defaultWords: string | null;
  /** What is accepted beyond the kind: a range, a choice. Empty when there is nothing to add. */
  readonly accepts: string;
  /** One line. */
  readonly help: string;
  /** Never printed, and masked wherever it turns up. */
  readonly secret: boolean;
  /** Throws an Error whose message says what is wrong. Never called with an empty text, which means: not set. */
  read(text: string): T;
}

/** Whether a value can be that of a setting: it crosses to threads. */
export function isPlainData(value: unknown): boolean {
  if (value === undefined) return false;
  try {
    structuredClone(value);
    return true;
  } catch {
    return false;
  }
}

interface Options {
  readonly defaultWords?: string;
  readonly secret?: boolean;
  /** What to do about a text that is not JSON. */
  readonly cure?: string;
}

const prefix = "SVC_";

function setting<T>(
  name: string,
  kind: string,
  fallback: T,
  help: string,
  read: (text: string) => T,
  options: Options & { readonly accepts?: string } = {},
): Setting<T> {
  return {
    name: prefix + name,
    kind,
    default: fallback,
    defaultWords: options.defaultWords ?? null,
    accepts: options.accepts ?? "",
    help,
    secret: options.secret ?? false,
    read,
  };
}

/** A default as one would write it; empty where that is to leave the variable unset. */
export function defaultText(value: unknown): string {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "object" ? "" : String(value);
}

/** Any text; `pattern` and its `reason` narrow it. */
export function text(
  name: string,
  fallback: string,
  help: string,
  options: Options & {
    readonly pattern?: RegExp;
    readonly reason?: string;
    readonly item?: (text: string) => string;
  } = {},
): Setting<string> {
  const read = (value: string): string => {
    if (options.pattern && !options.pattern.test(value)) throw new Error(options.reason ?? "is malformed");
    return options.item?.(value) ?? value;
  };
  return setting(name, options.secret ? "secret" : "string", fallback, help, read, options);
}

/** Yes or no, as true, false, 1 or 0. */
export function bool(name: string, fallback: boolean, help: string): Setting<boolean> {
  const read = (value: string): boolean => {
    const word = value.toLowerCase();
    if (word === "true" || word === "1") return true;
    if (word === "false" || word === "0") return false;
    throw new Error("must be true, false, 1 or 0");
  };
  return setting(name, "bool", fallback, help, read);
}

/** A whole number in a range. */
export function int(name: string, fallback: number, range: readonly [number, number], help: string): Setting<number> {
  return setting(name, "int", fallback, help, (value) => readNumber(value, /^-?\d{1,15}$/, "an integer", range), {
    accepts: rangeText(range),
  });
}

/** A duration; its unit is the last word of its name. Fractions are accepted. */
export function seconds(
  name: string,
  fallback: number,
  range: readonly [number, number],
  help: string,
): Setting<number> {
  return setting(name, "float", fallback, help, (value) => readNumber(value, decimal, "a number", range), {
    accepts: rangeText(range),
  });
}

/** A duration that may be left open. */
export function optionalSeconds(
  name: string,
  range: readonly [number, number],
  help: string,
  options: Options,
): Setting<number | null> {
  return setting<number | null>(name, "float", null, help, (value) => readNumber(value, decimal, "a number", range), {
    ...options,
    accepts: rangeText(range),
  });
}

const decimal = /^-?\d{1,15}(\.\d{1,9})?$/;

function readNumber(value: string, form: RegExp, what: string, [least, most]: readonly [number, number]): number {
  if (!form.test(value)) throw new Error(`must be ${what}`);
  const number = Number(value);
  if (number < least || number > most) throw new Error(`must be from ${least} to ${most}`);
  return number;
}

function rangeText([least, most]: readonly [number, number]): string {
  return `${least} to ${most}`;
}

/** One of some words. `unbuilt` are words that the specification knows and this version has no behaviour for. */
export function oneOf<const T extends string>(
  name: string,
  words: readonly T[],
  fallback: NoInfer<T>,
  help: string,
  more: { readonly unbuilt?: readonly string[]; readonly aliases?: Readonly<Record<string, NoInfer<T>>> } = {},
): Setting<T> {
  const known = new Map<string, T>([
    ...words.map((word) => [word, word] as const),
    ...Object.entries(more.aliases ?? {}),
  ]);
  const read = (value: string): T => {
    const word = value.toLowerCase();
    const found = known.get(word);
    if (found !== undefined) return found;
    if (more.unbuilt?.includes(word))
      throw new Error(`${word} is not supported by this version; use ${words.join(" or ")}`);
    throw new Error(`must be one of ${words.join(", ")}`);
  };
  return setting(name, "enum", fallback, help, read, { accepts: words.join(", ") });
}

/** A comma list. Blank items are dropped, so a single comma is the empty list. */
export function list(
  name: string,
  fallback: readonly string[],
  help: string,
  options: Options & { readonly item?: (item: string) => string } = {},
): Setting<readonly string[]> {
  const read = (value: string): readonly string[] => {
    const items = value.split(",").map((item) => item.trim());
    return [...new Set(items.filter((item) => item !== "").map(options.item ?? ((item) => item)))];
  };
  return setting(name, "csv", fallback, help, read, options);
}

/** A path of the file system. Nothing need be there. */
export function path(name: string, fallback: string, help: string, options: Options = {}): Setting<string> {
  return setting(name, "path", fallback, help, readPath, options);
}

/** A path that may be left out. */
export function optionalPath(name: string, help: string): Setting<string | null> {
  return setting<string | null>(name, "path", null, help, readPath);
}

function readPath(value: string): string {
  if (value.includes("\0")) throw new Error("must not hold a NUL character");
  return value;
}

/** An http or https address, without a slash at its end. */
export function url(name: string, help: string): Setting<string> {
  return setting(name, "url", "", help, readHttpUrl);
}

/** Checks an http or https address and takes the slashes off its end. */
export function readHttpUrl(value: string): string {
  const parsed = URL.parse(value);
  if (!parsed || !/^https?:$/.test(parsed.protocol)) throw new Error("must be an http or https URL");
  if (parsed.username !== "" || parsed.password !== "") throw new Error("must not carry a user name or password");
  if (parsed.search !== "" || parsed.hash !== "") throw new Error("must not carry a query or a fragment");
  return value.replace(/\/+$/, "");
}

/** A JSON document that `check` turns into its value. */
export function json<T>(
  name: string,
  fallback: T,
  help: string,
  check: (document: unknown) => T,
  options: Options = {},
): Setting<T> {
  const read = (value: string): T => {
    let document: unknown;
    try {
      document = JSON.parse(value);
    } catch {
      const shape = /^\s*[{[]/.test(value)
        ? ""
        : ": it must hold the JSON itself, without quotes around it, and not a file name";
      throw new Error(`is not JSON${shape}${options.cure === undefined ? "" : `; ${options.cure}`}`);
    }
    return check(document);
  };
  return setting(name, options.secret ? "json, secret" : "json", fallback, help, read, options);
}
