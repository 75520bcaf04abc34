/**
 * Throws when an `@` of a URL stands behind its host: then a password holds a raw `/`, `?` or `#`, and a part of the password would be
 * read, and reported, as the name of the host. The reason repeats nothing of the URL.
 */
export function refuseRawCredentials(url: string): void {
  const rest = url.slice(url.indexOf("//") + 2);
  const hostEnd = rest.search(/[/?#]/);
  if (hostEnd !== -1 && rest.includes("@", hostEnd))
    throw new Error(
      "has an @ after its host: percent-encode the user name and the password, as %40 for @, %2F for /, %3F for ? and %23 for #",
    );
}
