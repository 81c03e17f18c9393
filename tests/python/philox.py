"""Philox4x32-10 and the keys of host_random(), by their definitions."""

import numpy as np


def philox4x32(counter, key):
    """Salmon et al. 2011, section 3.3, as it is written there."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def keys_of(seed):
    """The keys of calls: 63 bits of numpy's MT19937, two words a key."""
    generator = np.random.MT19937()
    generator._legacy_seeding(seed)
    while True:
        high, low = (int(word) for word in generator.random_raw(2))
        yield (high << 32 | low) % 2**63


def bits_of(key, i, stream=0):
    words = philox4x32((i // 2, 0, stream % 2**32, stream >> 32),
                       (key % 2**32, key >> 32))
    return words[i % 2 * 2] << 32 | words[i % 2 * 2 + 1]
