// The figures of a report's texts with their sources, and what its tools reported as missing.

/** The figures in the order of the texts, numbered from 1: {number, name, start, end, figure, source, call, path, value}. A
 * figure without a source has source null. */
export function figuresOf({ cited, unsupported }) {
  const all = [...cited.map((one) => ({ ...one, name: one.text })), ...unsupported.map((one) => ({ ...one, name: one.text, source: null }))];
  const place = (one) => (one.name === 'summary' ? '' : one.name);
  all.sort((a, b) => place(a).localeCompare(place(b), 'en', { numeric: true }) || a.start - b.start);
  return all.map((one, index) => ({ ...one, number: index + 1 }));
}

/** A text cut at its figures: strings and figures in turn. Offsets count characters as Python does, not UTF-16 units. */
export function pieces(text, name, figures) {
  const letters = Array.from(text ?? '');
  const found = [];
  let at = 0;
  for (const figure of figures.filter((one) => one.name === name).sort((a, b) => a.start - b.start)) {
    if (figure.start < at || figure.end > letters.length) continue;
    if (figure.start > at) found.push(letters.slice(at, figure.start).join(''));
    found.push({ figure, text: letters.slice(figure.start, figure.end).join('') });
    at = figure.end;
  }
  if (at < letters.length) found.push(letters.slice(at).join(''));
  return found;
}

/** What the tools of a report did not have: {tool, what, reason, symbol}, each once. */
export function missingOf({ calls, reason, status }) {
  const found = status === 'completed' || !reason ? [] : [{ what: status.replaceAll('_', ' '), reason }];
  for (const call of calls) {
    const gaps = answerOf(call)?.missing;
    if (Array.isArray(gaps)) {
      for (const gap of gaps) found.push({ tool: call.tool, what: gap?.what ?? 'data', reason: gap?.reason ?? 'no reason given', symbol: gap?.symbol });
    }
    if (!call.success) found.push({ tool: call.tool, what: 'the call failed', reason: call.output.slice(0, 300) });
  }
  const seen = new Set();
  return found.filter((gap) => {
    const key = JSON.stringify([gap.symbol, gap.what, gap.reason]);
    return !seen.has(key) && seen.add(key);
  });
}

/** The answer of a call as a value; undefined when it is no whole JSON, since stored answers are cut at a bound. */
export function answerOf(call) {
  try {
    return JSON.parse(call.output);
  } catch {
    return undefined;
  }
}

/** The fields of the answer that have no place of their own. */
export function otherFields({ answer }) {
  const { verdict, confidence, summary, key_risks: risks, ...others } = answer ?? {};
  return others;
}

/** JSON in lines, with the places of values: {text, spots: Map(pointer -> [start, end])}. */
export function pretty(value, wanted) {
  const spots = new Map();
  const out = [];
  let length = 0;
  const write = (text) => {
    out.push(text);
    length += text.length;
  };
  const walk = (one, pointer, indent) => {
    const begin = length;
    if (one === null || typeof one !== 'object') write(JSON.stringify(one));
    else {
      const list = Array.isArray(one);
      const entries = Object.entries(one);
      write(list ? '[' : '{');
      entries.forEach(([key, inner], index) => {
        write(`${index ? ',' : ''}\n${' '.repeat(indent + 2)}${list ? '' : `${JSON.stringify(key)}: `}`);
        walk(inner, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, indent + 2);
      });
      write(`${entries.length ? `\n${' '.repeat(indent)}` : ''}${list ? ']' : '}'}`);
    }
    if (wanted.has(pointer)) spots.set(pointer, [begin, length]);
  };
  walk(value, '', 0);
  return { text: out.join(''), spots };
}
