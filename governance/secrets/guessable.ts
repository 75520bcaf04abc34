/** Shorter secrets can be guessed by trial. */
const charsMin = 16;
/** Matches one word or several joined words, in lower case, camel case or capitals. */
const word = /^(?:\p{Lu}?\p{Ll}*(?:\p{Lu}\p{Ll}{2,})*|\p{Lu}+)$/u;

/**
 * True if a secret can be guessed: it is short, or consists of words alone. A mask over such a secret in text that a caller
 * wrote would confirm the guess (decision 77). For a URL with a password, the password is judged.
 */
export function isGuessable(secret: string): boolean {
  const password = URL.parse(secret)?.password ?? "";
  const text = (password === "" ? secret : password).trim();
  return text.length < charsMin || (!/\p{N}/u.test(text) && text.split(/[^\p{L}]+/u).every((part) => word.test(part)));
}
