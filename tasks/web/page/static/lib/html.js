// The template function and the hooks, in one import for every view.

import { Fragment, h } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { h, Fragment };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
export { batch, computed, effect, signal, useComputed, useSignal } from '@preact/signals';
