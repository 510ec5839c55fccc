// SPDX-License-Identifier: Apache-2.0
// What the compiler and svelte-check read alike.
export default {};
