// What a refused request says of single fields, in plain words beside them.

const ONE = /(?:^|; )body\.(?:[^.;=]+\.)?([a-z_]+)((?:\.\d+)?)(?:='?(.*?)'?)?: (.+?)(?=; body\.|$)/gs;
const SAID = /** @type {[RegExp, (found: RegExpExecArray, given: string) => string][]} */ ([
  [/greater than or equal to (\S+)/, ([, least]) => `at least ${least}`],
  [/greater than (\S+)/, ([, least]) => `more than ${least}`],
  [/less than or equal to (\S+)/, ([, most]) => `at most ${most}`],
  [/less than (\S+)/, ([, most]) => `less than ${most}`],
  [/at most (\d+) (items|characters)/, ([, most, what]) => `at most ${most} ${what}`],
  [/at least (\d+) (item|character)s?/, ([, least, what]) => `at least ${least} ${what}${least === '1' ? '' : 's'}`],
  [/valid integer/, () => 'a whole number'],
  [/valid number/, () => 'a number'],
  [/valid date/, () => 'a day as YYYY-MM-DD'],
  [/Field required/, () => 'this is needed'],
  [/match pattern/, (_, given) => `${given || 'this'} is not of the form that is asked for here`],
]);

/** What is wrong with which field: {field: words}, of a refusal of the desk; empty where it names none. */
export function wrongFields(problem) {
  if (problem?.status !== 422) return {};
  return Object.fromEntries([...problem.detail.matchAll(ONE)].map(([, field, , given = '', said]) => {
    const known = SAID.find(([form]) => form.test(said));
    return [field, known ? known[1](known[0].exec(said), given) : said];
  }));
}
