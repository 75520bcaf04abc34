import { type KeyedProviderName, keyedProviders } from "./model-options.ts";

/** Returns the environment variables for a provider's key; the first that is set is used. */
export function providerKeyNames(provider: KeyedProviderName): readonly [string, string] {
  const name = `${provider.toUpperCase()}_API_KEY`;
  return [`SVC_${name}`, name];
}

/** Reads the providers' keys from the environment, with the names of their variables. */
export function readProviderKeys(environment: Readonly<Record<string, string | undefined>>): {
  keys: Readonly<Partial<Record<KeyedProviderName, string>>>;
  names: readonly string[];
} {
  const keys: Partial<Record<KeyedProviderName, string>> = {};
  const names: string[] = [];
  for (const provider of keyedProviders) {
    const name = providerKeyNames(provider).find((candidate) => environment[candidate]?.trim());
    const key = name && environment[name]?.trim();
    if (!name || !key) continue;
    keys[provider] = key;
    names.push(name);
  }
  return { keys, names };
}
