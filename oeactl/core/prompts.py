"""The prompts of ``oeactl quality``: short, plain, of many kinds, the same for ever.

Owns: the texts. Changing one makes every recording before it incomparable, which their hash then shows.
"""

from __future__ import annotations

import hashlib

PROMPTS = (
    "The capital of France is",
    "Water boils at sea level when it reaches",
    "Here is a short poem about the first snow of the year:\n",
    "List the planets of the solar system, nearest to the sun first:\n1.",
    "Question: What is 17 times 23?\nAnswer: Let us work it out step by step.",
    "def is_prime(n: int) -> bool:\n    ",
    "Translate into German: The train leaves at half past seven.\n",
    "Dear Ms. Alvarez,\n\nThank you for your letter of 3 May about the broken heating in",
    "The three states of matter that pupils learn first are",
    "Once upon a time, a fisherman found a bottle in which",
    "SELECT name, count(*) FROM orders WHERE",
    "In a nutshell, photosynthesis is the process by which",
    "Q: Why is the sky blue?\nA:",
    "Recipe for pancakes. Ingredients: two eggs, 250 ml of milk,",
    "The opposite of generous is",
    "To prove that the square root of two is irrational, assume",
    '{"name": "Ada", "born": 1815, "fields": [',
    "A bat and a ball cost 1.10 together. The bat costs 1.00 more than the ball. The ball costs",
    "News in brief: after a week of rain the river has",
    "Summary of the meeting on Tuesday:\n- The budget for next year",
    "#include <stdio.h>\n\nint main(void) {\n",
    "The difference between weather and climate is that",
    "Complete the sequence: 2, 3, 5, 7, 11, 13,",
    "The heart pumps blood through",
    "If all roses are flowers and some flowers fade quickly, then",
    "Traduis en anglais : Il n'y a pas de fumée sans feu.\n",
    "How to tie a bowline: first, make a small loop near",
    "Two trains, 300 km apart, run towards each other at 80 and 70 km/h. They meet after",
    "In the year 1969, two astronauts",
    "git rebase is used when",
    "The villain of the play, a merchant who had lost everything, said:",
    "Name one advantage and one disadvantage of nuclear power.\n",
)


def prompts_sha256(prompts: tuple[str, ...]) -> str:
    """A name for the prompts: of their texts, each ended by a zero byte."""
    return hashlib.sha256("".join(f"{prompt}\0" for prompt in prompts).encode()).hexdigest()
