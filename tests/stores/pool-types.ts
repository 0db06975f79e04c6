// The pool of `pg` is what the store takes.
import { postgresStore } from 'agent-roundtable/postgres';
import pg from 'pg';

void postgresStore({ pool: new pg.Pool(), schema: 'x' }).setup();
