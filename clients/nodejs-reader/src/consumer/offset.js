// Which offsets of the assigned partitions are done, and which of them are committed. No I/O.
//
// Messages of a partition are handled in order, so one number per partition is enough.
export const placeOf = (topic, partition) => `${topic}:${partition}`;

export class OffsetTracker {
  #places = new Map();

  /** The message at this offset and all before it are done. */
  markDone({ topic, partition, offset }) {
    const name = placeOf(topic, partition);
    const place = this.#places.get(name) ?? { topic, partition, done: 0, committed: 0 };
    place.done = Math.max(place.done, offset + 1);
    this.#places.set(name, place);
  }

  /** The positions to commit: the offset after the last message that is done. */
  uncommitted() {
    return [...this.#places.values()]
      .filter((one) => one.done > one.committed)
      .map(({ topic, partition, done }) => ({ topic, partition, offset: done }));
  }

  markCommitted(positions) {
    for (const { topic, partition, offset } of positions) {
      const place = this.#places.get(placeOf(topic, partition));
      if (place) place.committed = Math.max(place.committed, offset);
    }
  }

  /** The partition belongs to somebody else, or is read from another place. */
  forget(topic, partition) {
    this.#places.delete(placeOf(topic, partition));
  }

  clear() {
    this.#places.clear();
  }
}
