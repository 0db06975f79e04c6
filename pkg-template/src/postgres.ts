/** Conversations in PostgreSQL, for any number of hosts. The pool is the host's own, such as that of `pg`. */

export {
  type PostgresClient,
  type PostgresPool,
  type PostgresResult,
  type PostgresStore,
  type PostgresStoreOptions,
  postgresStore,
} from './stores/postgres/index.js';
