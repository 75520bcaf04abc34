/**
 * Throws if an `@` follows the host of a URL. Then the password contains a raw `/`, `?` or `#`, and a part of it would be
 * parsed, and reported, as the host name. The error repeats no part of the URL.
 */
export function refuseRawCredentials(url: string): void {
  const rest = url.slice(url.indexOf("//") + 2);
  const hostEnd = rest.search(/[/?#]/);
  if (hostEnd !== -1 && rest.includes("@", hostEnd))
    throw new Error(
      "has an @ after its host: percent-encode the user name and the password, as %40 for @, %2F for /, %3F for ? and %23 for #",
    );
}
