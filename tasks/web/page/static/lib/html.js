// The template function and the hooks, in one import for every view.

import { h } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
export { signal } from '@preact/signals';
