import { keyedProviders } from "../../governance/settings/model-options.ts";
import { providerKeyNames } from "../../governance/settings/provider-keys.ts";
import type { Setting } from "../../governance/settings/setting.ts";
import { type Settings, settingsSections } from "../../governance/settings/settings.ts";

/** A setting as the doctor shows it. For a secret, `value` only says whether it is set. */
export interface EffectiveSetting {
  readonly name: string;
  readonly value: unknown;
  readonly secret: boolean;
  readonly source: "default" | "environment";
}

/**
 * Returns every setting with its value in the order of the documentation, then settings of plugins (`own`), keys of providers,
 * and named secrets.
 */
export function effectiveSettings(
  settings: Settings,
  own: readonly Setting<unknown>[] = [],
): readonly EffectiveSetting[] {
  const given = new Set(settings.fromEnvironment);
  const show = ({ name, secret }: Setting<unknown>, value: unknown): EffectiveSetting => {
    const source = given.has(name) ? "environment" : "default";
    return { name, value: secret ? setOrUnset(given.has(name)) : value, secret, source };
  };
  const declared = settingsSections.flatMap((section) =>
    Object.entries<Setting<unknown>>(section.settings).map(([key, setting]) =>
      show(setting, settings[key as keyof Settings]),
    ),
  );
  const ofPlugins = own.map((setting) => show(setting, settings.pluginSettings[setting.name]));
  const keys = keyedProviders.map((provider): EffectiveSetting => {
    const [own, common] = providerKeyNames(provider);
    const name = given.has(own) || !given.has(common) ? own : common;
    return secretSetting(name, given.has(name));
  });
  const secrets = Object.keys(settings.secrets).map((name) => secretSetting(`SVC_SECRET_${name}`, true));
  return [...declared, ...ofPlugins, ...keys, ...secrets];
}

function secretSetting(name: string, set: boolean): EffectiveSetting {
  return { name, value: setOrUnset(set), secret: true, source: set ? "environment" : "default" };
}

function setOrUnset(set: boolean): string {
  return set ? "set" : "unset";
}
