/** Shorter secrets can be guessed, one after another. */
const charsMin = 16;
/** One of: a word in small letters, which a capital may begin, or several such; a word in capitals. */
const word = /^(?:\p{Lu}?\p{Ll}*(?:\p{Lu}\p{Ll}{2,})*|\p{Lu}+)$/u;

/**
 * Whether a secret can be found by guessing: it is short, or nothing but words. If such a secret were masked where a caller reads
 * what it wrote, then the mask would tell which guess was right (decision 77). Of a URL that carries a password, the password counts.
 */
export function isGuessable(secret: string): boolean {
  const password = URL.parse(secret)?.password ?? "";
  const text = (password === "" ? secret : password).trim();
  return text.length < charsMin || (!/\p{N}/u.test(text) && text.split(/[^\p{L}]+/u).every((part) => word.test(part)));
}
