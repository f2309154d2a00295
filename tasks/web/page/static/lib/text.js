// Text from the desk: a model, a headline or a tool wrote it, so all of it is hostile until shown as text.

// Characters that turn the direction of what follows, or are not seen at all.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** The text with characters that hide or reorder others made visible. */
export function plain(value) {
  if (value === null || value === undefined) return '';
  return String(value).replace(UNSEEN, '\u25af');
}

/** A URL that may be a link to elsewhere: http or https alone; else null. */
export function safeUrl(value) {
  try {
    const url = new URL(String(value));
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}

/** The first characters of a text, with an ellipsis where some are left out. */
export function short(value, most = 80) {
  const text = plain(value);
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

/** The short form of an id: its first twelve characters are the millisecond that it was made in. Commands accept it. */
export const shortId = (id) => plain(id).slice(0, 12);
