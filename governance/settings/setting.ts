// Defines settings and their kinds. A kind parses the text of an environment variable. The error for a malformed text never
// repeats the text, because it may be a secret.

/** One setting, declared as data. */
export interface Setting<T> {
  /** Name of the environment variable. */
  readonly name: string;
  /** As the documentation shows it: int, bool, csv … */
  readonly kind: string;
  readonly default: T;
  /** Describes a default that depends on other settings; null if the default is a plain value. */
  readonly defaultWords: string | null;
  /** Constraints beyond the kind, such as a range or a choice; empty for none. */
  readonly accepts: string;
  /** One line. */
  readonly help: string;
  /** True if the value is never printed and is masked everywhere. */
  readonly secret: boolean;
  /** True if the setting is refused in production. */
  readonly testOnly?: boolean;
  /** Returns the secrets in the value of a secret setting, which are masked by themselves; absent for none. */
  literals?(value: T): readonly string[];
  /** Parses the text. Throws an Error with the problem. Never called for an empty text, which means unset. */
  read(text: string): T;
}

/** True if a value can be cloned to another thread, as values of settings must be. */
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
  /** Instructions for a text that is not JSON. */
  readonly cure?: string;
}

const prefix = "SVC_";

/** A setting of any kind. */
export function setting<T>(
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

/** Returns the setting under its name without SVC_, for names that a specification fixes, such as STRIPE_SECRET_KEY. */
export function unprefixed<T>(setting: Setting<T>): Setting<T> {
  return { ...setting, name: setting.name.slice(prefix.length) };
}

/** Returns a setting of a plugin that is for tests: refused in production. */
export function forTests<T>(setting: Setting<T>): Setting<T> {
  return { ...setting, testOnly: true };
}

/** Returns a default as the user would write it; empty if the variable is best left unset. */
export function defaultText(value: unknown): string {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "object" ? "" : String(value);
}

/** Any text; `pattern` and `reason` restrict it. */
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

/** A boolean: true, false, 1 or 0. */
export function bool(name: string, fallback: boolean, help: string): Setting<boolean> {
  const read = (value: string): boolean => {
    const word = value.toLowerCase();
    if (word === "true" || word === "1") return true;
    if (word === "false" || word === "0") return false;
    throw new Error("must be true, false, 1 or 0");
  };
  return setting(name, "bool", fallback, help, read);
}

/** An integer in a range. */
export function int(name: string, fallback: number, range: readonly [number, number], help: string): Setting<number> {
  return setting(name, "int", fallback, help, (value) => readNumber(value, /^-?\d{1,15}$/, "an integer", range), {
    accepts: rangeText(range),
  });
}

/** A duration in the unit at the end of its name. Accepts fractions. */
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

/** A share from 0 to 1. */
export function share(name: string, fallback: number, help: string): Setting<number> {
  const range = [0, 1] as const;
  return setting(name, "float", fallback, help, (value) => readNumber(value, decimal, "a number", range), {
    accepts: rangeText(range),
  });
}

/** A duration that may be unset. */
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

/** One of several words. `unbuilt` are words of the specification that this version does not support. */
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

/** A comma-separated list. Blank items are dropped, so a single comma is the empty list. */
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

/** A file system path, which need not exist. */
export function path(name: string, fallback: string, help: string, options: Options = {}): Setting<string> {
  return setting(name, "path", fallback, help, readPath, options);
}

/** A path that may be unset. */
export function optionalPath(name: string, help: string): Setting<string | null> {
  return setting<string | null>(name, "path", null, help, readPath);
}

function readPath(value: string): string {
  if (value.includes("\0")) throw new Error("must not hold a NUL character");
  return value;
}

/** An http or https URL, without a trailing slash. */
export function url(name: string, help: string, fallback = ""): Setting<string> {
  return setting(name, "url", fallback, help, readHttpUrl);
}

/** Checks an http or https URL and removes trailing slashes. */
export function readHttpUrl(value: string): string {
  const parsed = URL.parse(value);
  if (!parsed || !/^https?:$/.test(parsed.protocol)) throw new Error("must be an http or https URL");
  if (parsed.username !== "" || parsed.password !== "") throw new Error("must not carry a user name or password");
  if (parsed.search !== "" || parsed.hash !== "") throw new Error("must not carry a query or a fragment");
  return value.replace(/\/+$/, "");
}

/** A JSON document that `check` converts to the value. */
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
