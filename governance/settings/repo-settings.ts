import { bool, int, list, optionalPath, seconds, setting, text } from "./setting.ts";

/** Settings of code-host connections, and of repositories that threads work in (decisions 235 to 237, 253, 254 and 257). */
export const repoSettings = {
  githubKeepTokens: bool(
    "GITHUB_KEEP_TOKENS",
    false,
    "Keeps the token of each person who signs in with GitHub in a browser, encrypted, to clone and publish for that person. Use a GitHub App.",
  ),
  encryptionKey: setting<readonly string[]>(
    "ENCRYPTION_KEY",
    "csv, secret",
    [],
    "The keys of stored tokens: 32 random bytes in base64 each, separated by commas; the first encrypts, all decrypt.",
    readKeys,
    { secret: true },
  ),
  githubAppSlug: text(
    "GITHUB_APP_SLUG",
    "",
    "The name of the GitHub App in the address of its page; shown to people who must install it.",
    { pattern: /^[a-z0-9-]{1,100}$/i, reason: "must be the last part of the address of the app" },
  ),
  repoHosts: list("REPO_HOSTS", ["github.com"], "Hosts from which repositories are cloned, over https only.", {
    item: (host) => {
      const name = host.toLowerCase();
      if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name)) throw new Error("must be host names");
      return name;
    },
  }),
  repoCheckoutRoot: optionalPath(
    "REPO_CHECKOUT_ROOT",
    "The folder of the git data of repositories; unset, SVC_DATA_DIR/checkouts. Hosts of a deployment must set and share it; it lies outside of SVC_WORKSPACE_ROOT.",
  ),
  repoCloneMaxMb: int(
    "REPO_CLONE_MAX_MB",
    500,
    [1, 50_000],
    "Size that a repository may have: as the code host says it, in bytes sent, and in its files.",
  ),
  repoCloneTimeoutSeconds: seconds("REPO_CLONE_TIMEOUT_SECONDS", 600, [0.001, 3_600], "Time for a clone or a push."),
  repoCheckoutTtlDays: int(
    "REPO_CHECKOUT_TTL_DAYS",
    14,
    [1, 365],
    "Days without use after which a checkout is deleted; one with changes is kept four times as long.",
  ),
};

function readKeys(value: string): readonly string[] {
  const keys = value.split(",").map((key) => key.trim());
  for (const key of keys)
    if (Buffer.from(key, "base64").length !== 32) throw new Error("must be 32 bytes in base64 each");
  return keys;
}
