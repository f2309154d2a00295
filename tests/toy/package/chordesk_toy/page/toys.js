// The toys.

import { html, Loaded, useGet } from '../../lib/view.js';

export const Toys = () => html`<div class="view"><h1>Toys</h1>
  <${Loaded} from=${useGet('/toys')} what="toys">${(found) => html`<p>There are ${found.toys}.</p>`}<//></div>`;
