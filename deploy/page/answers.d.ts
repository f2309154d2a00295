// What a path of the desk answers, by the schema in api.d.ts, which `make check` makes of the desk's own.

import type { paths } from './api.js';

type Filled<Path extends string> = Path extends `${infer Before}{${string}}${infer After}`
  ? `${Before}${string}${Filled<After>}`
  : Path;
type Same<One, Other> = [One, Other] extends [Other, One] ? true : false;
type Template<Path> = { [Key in keyof paths]: Same<Filled<Key>, Path> extends true ? Key : never }[keyof paths];
type Ok<Way> = Way extends { responses: { 200: { content: { 'application/json': infer Body } } } } ? Body : any;

/** The answer to GET of a path: `/runs` by its name, `/runs/${string}` with what its parameter is. */
export type Answer<Path> = Path extends string
  ? [Template<Path>] extends [never] ? any : Ok<paths[Template<Path>]['get']>
  : never;
